"""``python -m holdfast`` is the command ``holdfast``."""

import sys


def run() -> int:
    """Run the command, which is imported only then."""
    from holdfast.app import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
