#!/bin/bash
# moto 5.2.5 with boto3 1.44.8 (PyPI), as a stand-in for EC2 in tests of launches.
#
# By EC2's documentation a CreateFleet or RunInstances repeated with its ClientToken gives the first answer again; botocore's
# model marks the member as the idempotency token. moto starts another instance each time, so that a test of "the answer was
# lost, ask again" finds two machines where EC2 has one. A fleet of lowest-price takes the first override, be it the dearer
# one, and DescribeInstanceTypes gives everything in one page whatever MaxResults says: neither the choice nor the paging of a
# client is ever tried.
#
# Seen on 2026-11-28:
#   CreateFleet: idempotency token ClientToken, sent twice: 2 instances of m5.24xlarge, m5.24xlarge
#   RunInstances: idempotency token ClientToken, sent twice: 2 instances, both with token one
#   DescribeInstanceTypes, MaxResults 5: more than 1000, NextToken None
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv env
env/bin/pip install --quiet 'moto[ec2]==5.2.5' boto3==1.44.8
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1
env/bin/python - <<'PY' | tee seen
import boto3
from moto import mock_aws

mock_aws().start()
ec2 = boto3.client("ec2")
image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
ec2.create_launch_template(LaunchTemplateName="node", LaunchTemplateData={"ImageId": image})
model = lambda name: ", ".join(ec2.meta.service_model.operation_model(name).idempotent_members)

def fleet():
    answer = ec2.create_fleet(
        Type="instant", ClientToken="two", OnDemandOptions={"AllocationStrategy": "lowest-price"},
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        LaunchTemplateConfigs=[{
            "LaunchTemplateSpecification": {"LaunchTemplateName": "node", "Version": "$Latest"},
            "Overrides": [{"InstanceType": "m5.24xlarge"}, {"InstanceType": "m5.large"}]}])
    return answer["Instances"][0]

def run():
    return ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, ClientToken="one")["Instances"][0]

both = [fleet(), fleet()]
print(f"CreateFleet: idempotency token {model('CreateFleet')}, sent twice:", len({i for b in both for i in b["InstanceIds"]}),
      "instances of", ", ".join(b["InstanceType"] for b in both))
both = [run(), run()]
print(f"RunInstances: idempotency token {model('RunInstances')}, sent twice:", len({b["InstanceId"] for b in both}),
      "instances, both with token", " ".join({b["ClientToken"] for b in both}))
page = ec2.describe_instance_types(MaxResults=5)
size = "more than 1000" if len(page["InstanceTypes"]) > 1000 else "a page"
print(f"DescribeInstanceTypes, MaxResults 5: {size}, NextToken {page.get('NextToken')}")
PY
diff seen - <<'SEEN' || { echo "moto answers a repeated launch or a page differently now"; exit 1; }
CreateFleet: idempotency token ClientToken, sent twice: 2 instances of m5.24xlarge, m5.24xlarge
RunInstances: idempotency token ClientToken, sent twice: 2 instances, both with token one
DescribeInstanceTypes, MaxResults 5: more than 1000, NextToken None
SEEN
