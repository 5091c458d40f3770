"""What gunicorn and the `flask` command load: `app`."""

import os
import sys

from store.settings import BadSetting
from store.start import CannotStart, read_settings
from webapp import create_app

IS_COMMAND = "FLASK_RUN_FROM_CLI" in os.environ
GUNICORN_STOPS = 4  # with any other code it starts the worker again, for ever

try:
    settings = read_settings()
    if not IS_COMMAND:  # it will serve pages; commands need no secret
        settings.secret_key()
    app = create_app(settings)
except (CannotStart, BadSetting) as error:
    print(f"Error: {error}", file=sys.stderr)
    sys.exit(1 if IS_COMMAND else GUNICORN_STOPS)
