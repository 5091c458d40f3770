"""What gunicorn and the `flask` command load: `app`."""

import os
import sys

from store.settings import BadSetting
from store.start import CannotStart, read_settings
from webapp import create_app

try:
    settings = read_settings()
    if "FLASK_RUN_FROM_CLI" not in os.environ:  # it will serve pages; commands need no secret
        settings.secret_key()
    app = create_app(settings)
except (CannotStart, BadSetting) as error:
    sys.exit(f"Error: {error}")
