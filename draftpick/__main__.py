"""`python -m draftpick`."""

from draftpick.cli import main

if __name__ == "__main__":
    main()
