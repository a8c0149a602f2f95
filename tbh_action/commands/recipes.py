"""`tbh recipes`: what can be named."""

from __future__ import annotations

import click

from tbh_action import recipes


@click.command("recipes")
def recipes_command() -> None:
    """List the model and benchmark recipes that ship with tbh."""
    for kind, title, key in (
        ("models", "Model recipes (--recipe NAME)", "model"),
        ("benchmarks", "Benchmark recipes (--benchmark NAME)", "repo"),
    ):
        click.echo(title)
        names = recipes.names("models" if kind == "models" else "benchmarks")
        width = max(len(name) for name in names)
        for name in names:
            recipe = recipes.load("models" if kind == "models" else "benchmarks", name)
            server = recipe.get("server")
            where = f", {server['engine']} on {server['flavor']}" if server else ""
            click.echo(f"  {name:{width}}  {recipe.get(key, '')}{where}")
        click.echo()
    click.echo("A path that ends in .toml uses a file of your own; `tbh recipe new` proposes one.")
