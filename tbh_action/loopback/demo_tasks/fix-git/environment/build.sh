#!/bin/bash
# Makes the task's files; the loopback Hub runs it in place of an image.
set -euo pipefail
cd /app
mkdir site && cd site
export GIT_AUTHOR_DATE="2026-01-05T10:00:00Z" GIT_COMMITTER_DATE="2026-01-05T10:00:00Z"
git init -q -b main
git config user.name "Site Owner"
git config user.email owner@example.com
echo "<h1>Home</h1>" > index.html
git add . && git commit -qm "Start the site"
git checkout -q --detach
echo "<p>Tower Street 7</p>" > contact.html
git add . && git commit -qm "Add the contact page"
git checkout -q main
echo "<p>News</p>" >> index.html
git commit -qam "Add the news"
