#!/bin/bash
set -euo pipefail
cd /app
tac original.txt > mirror.txt
