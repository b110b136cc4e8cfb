"""What operators and EC2 do to the account at moto: URL, what, and its arguments."""

import json
import sys

import boto3

URL, WHAT, MORE = sys.argv[1], sys.argv[2], sys.argv[3:]
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": "sts:AssumeRole",
        }
    ],
}


def client(service):
    return boto3.client(
        service,
        region_name="us-east-1",
        endpoint_url=URL,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


def instances():
    """Those that live."""
    states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    found = client("ec2").describe_instances(Filters=[states])
    return [one for all in found["Reservations"] for one in all["Instances"]]


def prepare():
    """A cluster, a role, a queue, and tags on the default VPC's subnets and groups."""
    ec2 = client("ec2")
    own = [one["SubnetId"] for one in ec2.describe_subnets()["Subnets"]]
    own += [one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"]]
    ec2.create_tags(Resources=own, Tags=[{"Key": "karpenter.sh/discovery", "Value": "demo"}])
    client("iam").create_role(RoleName="node", AssumeRolePolicyDocument=json.dumps(TRUST))
    client("eks").create_cluster(
        name="demo", roleArn="arn:aws:iam::123456789012:role/node", resourcesVpcConfig={}
    )
    client("sqs").create_queue(QueueName="demo")


def images():
    """Two images that nodes could boot, by name."""
    found = client("ec2").describe_images(Owners=["137112412989"])["Images"]
    names = [one["Name"] for one in found if one["Architecture"] == "x86_64"]
    print(json.dumps(sorted(name for name in names if name.startswith("amzn-ami-hvm"))[:2]))


def living():
    print(json.dumps([one["InstanceId"] for one in instances()]))


def interrupt():
    """EC2 takes a spot instance back in two minutes."""
    event = {
        "version": "0",
        "source": "aws.ec2",
        "region": "us-east-1",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": MORE[0], "instance-action": "terminate"},
    }
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName="demo")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))


def terminate():
    client("ec2").terminate_instances(InstanceIds=MORE)


def orphan():
    """An instance with the tags of the cluster, which no NodeClaim knows."""
    ec2 = client("ec2")
    of_cluster = {
        "kubernetes.io/cluster/demo": "owned",
        "eks:eks-cluster-name": "demo",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/nodeclaim": "default-gone",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
    tags = [{"Key": key, "Value": value} for key, value in of_cluster.items()]
    made = ec2.run_instances(
        ImageId=MORE[0],
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    print(made["Instances"][0]["InstanceId"])


def image_id():
    found = client("ec2").describe_images(Filters=[{"Name": "name", "Values": MORE}])
    print(found["Images"][0]["ImageId"])


{
    "prepare": prepare,
    "images": images,
    "living": living,
    "interrupt": interrupt,
    "terminate": terminate,
    "orphan": orphan,
    "image-id": image_id,
}[WHAT]()
