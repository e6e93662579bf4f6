"""`mirror`, but a standby may wait for a shorter time than operators may say: for tests whose source is never away.

The bound in mirror/timing.py is for a leader that is slow to notice that the source is back.
"""

from mirror import timing

timing.TAKE_OVER_LEAST = 10.0

from mirror.cli import main  # noqa: E402  # reads the bound

main()
