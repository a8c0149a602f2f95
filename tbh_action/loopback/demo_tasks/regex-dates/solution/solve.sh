#!/bin/bash
set -euo pipefail
cd /app
echo '(^|[^0-9])[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([^0-9]|$)' > pattern.txt
