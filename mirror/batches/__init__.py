"""Record batches of Kafka's format 2 (KIP-98), as logs and Fetch answers have them. Pure: no input, no output."""
