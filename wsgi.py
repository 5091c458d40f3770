"""What gunicorn and the `flask` command load: `app`."""

import sys

from store.start import CannotStart, read_settings
from webapp import create_app

try:
    app = create_app(read_settings())
except CannotStart as error:
    sys.exit(f"Error: {error}")
