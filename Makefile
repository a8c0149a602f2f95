# Each target does all of its own set-up: a fresh clone on a fresh machine needs only make and a
# network that reaches a Python package index.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench clean

help: ## Show the targets.
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Make .venv/bin/tbh: Python ≥ 3.12, uv, the locked packages, git-lfs, tmux, bubblewrap.
	@bash .ci/setup run

demo: setup ## The whole main job in about a minute, against a loopback Hub.
	@.venv/bin/tbh demo

test: ## All tests; installs the development packages too.
	@bash .ci/setup test
	@.venv/bin/python -m pytest -n auto --dist loadgroup

lint: ## ruff, mypy and the linters of the workflows.
	@bash .ci/setup test
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy

bench: ## The measurements that the README quotes.
	@bash .ci/setup test
	@for script in bench/report.py bench/gateway.py bench/policy.py; do .venv/bin/python $$script; done

clean: ## Remove what the targets made.
	rm -rf .venv .tools
