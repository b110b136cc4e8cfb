#!/bin/bash
# boto3 1.44.8 (PyPI) and @aws-sdk/client-ec2 3.1169.0 (npm), RunInstances where EC2 has no machines left.
#
# EC2's reference counts InsufficientInstanceCapacity among the server's errors, so RunInstances answers with status 500. Both
# SDKs take any 500 for a passing fault and ask again: five times in botocore's mode legacy, three times in its mode
# standard and in JavaScript. All tries carry one ClientToken, which the SDK made up. A launcher that turns to the next type
# on that error learns of it late, and only after calls that count against the account's rate. CreateFleet names the same
# shortage in an answer of status 200, and is asked once.
#
# Longshore buys with CreateFleet.
#
# Seen on 2026-11-28 at a small server that answers so:
#   boto3, legacy: RunInstances 5 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
#   boto3, standard: RunInstances 3 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
#   @aws-sdk/client-ec2: RunInstances 3 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
set -euo pipefail
work=$(mktemp -d); trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet boto3==1.44.8
npm install --silent --no-fund --no-audit @aws-sdk/client-ec2@3.1169.0 >log 2>&1 || { cat log; exit 1; }
cat > server.py <<'PY'
import http.server, urllib.parse

RUN = """<Response><Errors><Error><Code>InsufficientInstanceCapacity</Code><Message>none left</Message></Error></Errors>
<RequestID>r</RequestID></Response>"""
FLEET = """<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><errorSet><item>
<errorCode>InsufficientInstanceCapacity</errorCode><errorMessage>none left</errorMessage></item></errorSet>
</CreateFleetResponse>"""

class Ec2(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        with open("requests", "a") as log:
            print(asked["Action"][0], asked["ClientToken"][0], file=log)
        code, text = (500, RUN) if asked["Action"] == ["RunInstances"] else (200, FLEET)
        self.send_response(code)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ec2)
open("port", "w").write(str(server.server_port))
server.serve_forever()
PY
python3 server.py & server=$!
until [ -s port ]; do sleep 0.1; done
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ENDPOINT_URL="http://127.0.0.1:$(cat port)"
cat > one.py <<'PY'
import boto3
from botocore.exceptions import ClientError

ec2 = boto3.client("ec2")
try:
    ec2.run_instances(ImageId="ami-1", InstanceType="m5.large", MinCount=1, MaxCount=1)
except ClientError as error:
    print(error.response["Error"]["Code"])
answer = ec2.create_fleet(Type="instant", TargetCapacitySpecification={"TotalTargetCapacity": 1}, LaunchTemplateConfigs=[])
assert answer["Errors"][0]["ErrorCode"] == "InsufficientInstanceCapacity"
PY
cat > one.mjs <<'JS'
import { EC2 } from '@aws-sdk/client-ec2'
const ec2 = new EC2({})
await ec2
  .runInstances({ ImageId: 'ami-1', InstanceType: 'm5.large', MinCount: 1, MaxCount: 1 })
  .catch((error) => console.log(error.name))
const fleet = { Type: 'instant', TargetCapacitySpecification: { TotalTargetCapacity: 1 }, LaunchTemplateConfigs: [] }
const answer = await ec2.createFleet(fleet)
if (answer.Errors[0].ErrorCode !== 'InsufficientInstanceCapacity') throw new Error(JSON.stringify(answer))
JS
try() { # NAME COMMAND...
    : > requests
    code=$("${@:2}")
    echo "$1: RunInstances $(grep -c RunInstances requests) requests, $(grep RunInstances requests | sort -u | wc -l) token, $code;" \
        "CreateFleet $(grep -c CreateFleet requests) request"
}
{
    AWS_RETRY_MODE=legacy try "boto3, legacy" env/bin/python one.py
    AWS_RETRY_MODE=standard try "boto3, standard" env/bin/python one.py
    AWS_RETRY_MODE=standard try "@aws-sdk/client-ec2" node one.mjs
} | tee seen
diff seen - <<'SEEN' || { echo "the SDKs ask a different number of times now"; exit 1; }
boto3, legacy: RunInstances 5 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
boto3, standard: RunInstances 3 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
@aws-sdk/client-ec2: RunInstances 3 requests, 1 token, InsufficientInstanceCapacity; CreateFleet 1 request
SEEN
