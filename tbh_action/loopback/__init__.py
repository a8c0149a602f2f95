"""A stand-in for the Hugging Face Hub on 127.0.0.1, in the Hub's own wire protocol.

The real clients (huggingface_hub, Harbor, its hf-sandbox environment, terminus-2, git) run against
it unchanged; only `HF_ENDPOINT` and the token differ. `hub.py` puts it together, `client.py` starts
it from Python, `python -m tbh_action.loopback` from a shell, `faults.py` says how to break it.
"""
