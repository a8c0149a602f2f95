"""What every test may rely on."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background makes SIGINT ignored, here and in every process
# that a test starts; several tests are about what SIGINT does.
signal.signal(signal.SIGINT, signal.default_int_handler)
