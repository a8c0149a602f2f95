#!/bin/bash
set -euo pipefail
cd /app
touch done
