"""`python -m draftpick`, and the entry point of the command."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends as quietly as later."""
    try:
        from draftpick.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
