"""A judge of recorded histories: pure, shares nothing with mirror, and is tested by mutation."""
