"""``python -m reproduce``: list the experiments of the papers, or run some of them."""

import sys

from reproduce import main

sys.exit(main())
