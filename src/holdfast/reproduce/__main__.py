"""``python -m holdfast.reproduce``: the same as ``holdfast reproduce``."""

import sys

from holdfast.reproduce import main

sys.exit(main())
