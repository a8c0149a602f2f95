"""Runs whose controller is itself a job on the Hub, for runs of days and for people without CI.

`submission` is what is asked, `job` starts the controller, `controller` is what runs inside that
job, `snapshot` and `store` keep the run in a private dataset, `progress` is its short story.
"""
