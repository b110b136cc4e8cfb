"""moto's server on loopback: PORT, and for how many seconds EC2 does not see a new instance profile."""

import io
import sys
import time
import urllib.parse

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

PORT, LATE = int(sys.argv[1]), float(sys.argv[2])
UNSEEN = b"""<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>InvalidParameterValue</Code>
<Message>Value (demo) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance \
Profile name</Message></Error></Errors><RequestID>late</RequestID></Response>"""

moto = DomainDispatcherApplication(create_backend_app)
made = -LATE


def answer(environ, start):
    """Refuses launches with a profile that is too young; moto answers all else."""
    global made
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    form = urllib.parse.parse_qs(body.decode("utf-8", "replace"))
    action = form.get("Action", [""])[0]
    if action == "AddRoleToInstanceProfile":
        made = time.monotonic()
    if action in ("RunInstances", "CreateFleet") and time.monotonic() < made + LATE:
        start("400 Bad Request", [("Content-Type", "text/xml"), ("Content-Length", str(len(UNSEEN)))])
        return [UNSEEN]
    return moto(environ, start)


run_simple("127.0.0.1", PORT, answer, threaded=True)
