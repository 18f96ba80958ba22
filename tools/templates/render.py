"""Renders templates by jinja2, in the environment of transformers' apply_chat_template. Runs in the peers.

Standard input: a JSON array of [template, variables], or {"templates": […], "variables": […]}: each with each. Standard output:
one of {"text": …} or {"error": …}.
"""
import json
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template


def render(template, variables):
    try:
        return {"text": _compile_jinja_template(template).render(**variables)}
    except Exception as error:  # any failure of a template is a result
        return {"error": str(error).split("\n")[0][:200]}


given = json.load(sys.stdin)
if isinstance(given, dict):
    cases = [(template, variables) for template in given["templates"] for variables in given["variables"]]
else:
    cases = given
json.dump([render(template, variables) for template, variables in cases], sys.stdout)
