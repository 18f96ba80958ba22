"""Templates rendered by the peers' jinja2 and transformers (render.py), for `record` and `replies`."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def peers_render(cases):
    with open(os.path.join(ROOT, "tools/templates/render.py"), encoding="utf-8") as file:
        script = file.read()
    done = subprocess.run([os.path.join(ROOT, "../shared/peers/in"), "python3", "-c", script], input=json.dumps(cases),
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
