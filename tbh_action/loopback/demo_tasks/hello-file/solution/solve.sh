#!/bin/bash
set -euo pipefail
cd /app
echo 'Hello, terminal!' > hello.txt
