"""`python -m draftpick`, and the entry point of the command."""

import signal
import sys
from contextlib import suppress


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends as quietly as later."""
    try:
        _end_as_on_ctrl_c()
        from draftpick.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def _end_as_on_ctrl_c() -> None:
    """A batch system ends a job with SIGTERM, a terminal that is closed with SIGHUP: what was measured is kept, and
    what was begun beside a file or started is removed.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no terminal that hangs up
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            with suppress(ValueError):  # only the main thread may
                signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    main()
