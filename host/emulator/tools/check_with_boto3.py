#!/usr/bin/env python3
"""Drives the emulator with boto3 and holds every raw reply against botocore's service models.

botocore's own parser forgives; this walk does not: an unknown element or member, a list item with another tag, a missing
required member, and a scalar of another syntax are findings.

    check_with_boto3.py http://127.0.0.1:PORT

Prints the calls made, the number of nodes looked at, and each finding. The exit status is 1 if there is any.
"""
import base64, json, re, sys, urllib.request
from xml.etree import ElementTree

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

url = sys.argv[1]
findings, nodes, calls = [], 0, 0
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def bad(where, what):
    findings.append(f"{where}: {what}")


def scalar(shape, value, where, xml):
    kind = shape.type_name
    ok = {
        "integer": lambda: re.fullmatch(r"-?\d+", value) if xml else isinstance(value, int),
        "long": lambda: re.fullmatch(r"-?\d+", value) if xml else isinstance(value, int),
        "double": lambda: float(value) is not None,
        "float": lambda: float(value) is not None,
        "boolean": lambda: value in ("true", "false") if xml else isinstance(value, bool),
        "timestamp": lambda: TIME.match(value) if xml else isinstance(value, (int, float)),
    }.get(kind, lambda: isinstance(value, str))
    try:
        good = ok()
    except (TypeError, ValueError):
        good = False
    if not good:
        bad(where, f"{value!r} is no {kind}")
    enum = getattr(shape, "enum", None)
    if enum and value not in enum:
        bad(where, f"{value!r} is none of {len(enum)} values")


def walk_xml(shape, node, where):
    global nodes
    nodes += 1
    if shape.type_name == "structure":
        known = {}
        for name, member in shape.members.items():
            wire = member.serialization.get("name", name)
            known[wire] = (name, member)
            if member.type_name == "list" and member.serialization.get("flattened"):
                bad(where, f"{name} is flattened: this walk does not know that")
        seen = set()
        for child in node:
            tag = child.tag.split("}")[-1]
            if tag not in known:
                bad(where, f"unknown element {tag}")
                continue
            if tag in seen:
                bad(where, f"{tag} comes twice")
            seen.add(tag)
            walk_xml(known[tag][1], child, f"{where}.{known[tag][0]}")
        for wire, (name, _) in known.items():
            if name in shape.required_members and wire not in seen:
                bad(where, f"{name} is missing")
    elif shape.type_name == "list":
        item = shape.member.serialization.get("name", "member")
        for child in node:
            tag = child.tag.split("}")[-1]
            if tag != item:
                bad(where, f"list item {tag} and not {item}")
            walk_xml(shape.member, child, where + "[]")
    else:
        if len(node):
            bad(where, "has elements where text is expected")
        scalar(shape, node.text or "", where, True)


def walk_json(shape, value, where):
    global nodes
    nodes += 1
    if shape.type_name == "structure":
        known = {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}
        if not isinstance(value, dict):
            return bad(where, f"{value!r} is no object")
        for name, inside in value.items():
            if name not in known:
                bad(where, f"unknown member {name}")
            else:
                walk_json(known[name][1], inside, f"{where}.{name}")
        for wire, (name, _) in known.items():
            if name in shape.required_members and wire not in value:
                bad(where, f"{name} is missing")
    elif shape.type_name == "list":
        for inside in value:
            walk_json(shape.member, inside, where + "[]")
    elif shape.type_name == "map":
        for key, inside in value.items():
            scalar(shape.key, key, where + ".key", False)
            walk_json(shape.value, inside, f"{where}.{key}")
    else:
        scalar(shape, value, where, False)


def check(http_response, parsed, model, **_):
    global calls
    calls += 1
    service, where = model.service_model, f"{model.service_model.service_name}.{model.name}"
    body = http_response.content
    if http_response.status_code >= 300:
        return check_error(http_response, service, where)
    if service.metadata["protocol"] in ("ec2", "query"):
        root = ElementTree.fromstring(body)
        # EC2 writes a slash behind the namespace that the model does not have.
        namespace = service.metadata["xmlNamespace"].rstrip("/")
        if root.tag.replace("/}", "}") != "{%s}%sResponse" % (namespace, model.name):
            bad(where, f"the root is {root.tag}")
        if service.metadata["protocol"] == "ec2":
            ids = [child for child in root if child.tag.endswith("}requestId")]
            for child in ids:
                root.remove(child)
            if len(ids) != 1:
                bad(where, "requestId")
        else:
            if root.find("./{*}ResponseMetadata/{*}RequestId") is None:
                bad(where, "RequestId")
            wrapper = model.output_shape.serialization.get("resultWrapper") if model.output_shape else None
            root = root.find("{*}" + wrapper) if wrapper else None
            if wrapper and root is None:
                return bad(where, f"no {wrapper}")
        if model.output_shape is not None:
            walk_xml(model.output_shape, root, where)
    elif model.output_shape is not None:
        walk_json(model.output_shape, json.loads(body), where)
    if len(str(parsed.get("ResponseMetadata", {}).get("RequestId", ""))) < 36:
        bad(where, "boto3 finds no request id")


def check_error(http_response, service, where):
    body, protocol = http_response.content, service.metadata["protocol"]
    if protocol == "ec2":
        root = ElementTree.fromstring(body)
        shape = [child.tag for child in root]
        if root.tag != "Response" or shape != ["Errors", "RequestID"]:
            bad(where, f"error document {root.tag} {shape}")
    elif protocol == "query":
        root = ElementTree.fromstring(body)
        if not root.tag.endswith("}ErrorResponse") or root.find("./{*}Error/{*}Code") is None:
            bad(where, f"error document {root.tag}")
    elif protocol == "json":
        if set(json.loads(body)) != {"__type", "message"}:
            bad(where, f"error document {body!r}")
    elif "x-amzn-errortype" not in http_response.headers:
        bad(where, "no x-amzn-errortype")


def client(name):
    made = boto3.client(
        name, endpoint_url=url, region_name="us-east-1", aws_access_key_id="AKID", aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}))
    made.meta.events.register("after-call", check)
    return made


def refused(code, call, **parameters):
    try:
        call(**parameters)
    except ClientError as error:
        if error.response["Error"]["Code"] == code:
            return error
        bad(call.__name__, f"{error.response['Error']} and not {code}")
    else:
        bad(call.__name__, f"not refused with {code}")


def control(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, method=method)
    return json.load(urllib.request.urlopen(request))


def pages(made, operation, **parameters):
    return list(made.get_paginator(operation).paginate(**parameters))


def catalogue(ec2):
    types = pages(ec2, "describe_instance_types", MaxResults=5)
    assert sum(len(page["InstanceTypes"]) for page in types) >= 15 and len(types) >= 3
    refused("DryRunOperation", ec2.describe_instance_types, DryRun=True)
    pages(ec2, "describe_instance_type_offerings", LocationType="availability-zone")
    ec2.describe_availability_zones()
    pages(ec2, "describe_spot_price_history", ProductDescriptions=["Linux/UNIX"], MaxResults=10)
    ec2.get_spot_placement_scores(InstanceTypes=["m5.large", "c5.large", "r5.large"], TargetCapacity=5,
                                  SingleAvailabilityZone=True)
    tagged = [{"Name": "tag:karpenter.sh/discovery", "Values": ["demo"]}]
    assert len(ec2.describe_subnets(Filters=tagged)["Subnets"]) == 3
    assert ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]
    ec2.describe_vpcs()
    assert ec2.describe_images(Owners=["amazon"], IncludeDeprecated=True)["Images"]
    ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["active"]}])
    ec2.describe_placement_groups()
    refused("InvalidPlacementGroup.Unknown", ec2.describe_placement_groups, GroupNames=["none"])


def launches(ec2, image, profile):
    data = {
        "ImageId": image, "UserData": base64.b64encode(b"#!/bin/sh\n").decode(),
        "IamInstanceProfile": {"Name": profile}, "Monitoring": {"Enabled": True},
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}],
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-00000000000000001"], "Ipv4PrefixCount": 1}],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": [{"Key": "a", "Value": "b"}]}],
        "PrivateDnsNameOptions": {"HostnameType": "ip-name"},
    }
    name = "karpenter.k8s.aws/1"
    tags = [{"ResourceType": "launch-template", "Tags": [{"Key": "eks:eks-cluster-name", "Value": "demo"}]}]
    ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, TagSpecifications=tags)
    ec2.describe_launch_templates(Filters=[{"Name": "tag:eks:eks-cluster-name", "Values": ["demo"]}])
    ec2.describe_launch_template_versions(LaunchTemplateName=name)
    refused("InvalidLaunchTemplateName.NotFoundException", ec2.describe_launch_templates, LaunchTemplateNames=["none"])
    subnets = ec2.describe_subnets()["Subnets"]
    overrides = [{"InstanceType": kind, "SubnetId": subnet["SubnetId"], "AvailabilityZone": subnet["AvailabilityZone"],
                  "Priority": priority} for priority, kind in enumerate(["m5.large", "c5.large"]) for subnet in subnets]
    control("POST", "/_emulator/faults", [{"capacity": {"instanceType": "c5.large", "free": 0}}])

    def fleet(capacity_type, count, token, **more):
        options = {"spot": {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}},
                   "on-demand": {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}}[capacity_type]
        return ec2.create_fleet(
            Type="instant", ClientToken=token, **options, **more,
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"},
                                    "Overrides": overrides}],
            TargetCapacitySpecification={"TotalTargetCapacity": count, "DefaultTargetCapacityType": capacity_type},
            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "karpenter.sh/nodepool", "Value": "default"}]}])

    refused("DryRunOperation", fleet, capacity_type="on-demand", count=1, token="dry", DryRun=True)
    spot, on_demand = fleet("spot", 3, "token-1"), fleet("on-demand", 2, "token-2")
    assert fleet("spot", 3, "token-1")["FleetId"] == spot["FleetId"]
    refused("IdempotentParameterMismatch", fleet, capacity_type="spot", count=4, token="token-1")
    assert on_demand["Errors"][0]["ErrorCode"] == "InsufficientInstanceCapacity"
    ids = [one for answer in (spot, on_demand) for item in answer["Instances"] for one in item["InstanceIds"]]
    assert len(ids) == 5
    refused("DryRunOperation", ec2.run_instances, DryRun=True, MinCount=1, MaxCount=1, InstanceType="m5.large",
            LaunchTemplate={"LaunchTemplateName": name}, SubnetId=subnets[0]["SubnetId"])
    return ids, name


def instances(ec2, ids, name):
    found = ec2.describe_instances(InstanceIds=ids)
    one = found["Reservations"][0]["Instances"][0]
    assert one["NetworkInterfaces"][0]["Groups"][0]["GroupId"] == "sg-00000000000000001" and one["Placement"]["AvailabilityZoneId"]
    pages(ec2, "describe_instances", Filters=[{"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]}], MaxResults=5)
    ec2.create_tags(Resources=ids[:1], Tags=[{"Key": "Name", "Value": "n"}])
    ec2.delete_tags(Resources=ids[:1], Tags=[{"Key": "Name"}])
    for check_name in ("instance", "system", "instance-retirement"):
        control("POST", "/_emulator/faults", [{"impair": {"instance": ids[0], "check": check_name}}])
    assert ec2.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]
    control("POST", "/_emulator/faults", [{"interrupt": {"instance": ids[0]}}])
    ec2.reboot_instances(InstanceIds=ids[:1])
    ec2.terminate_instances(InstanceIds=ids)
    ec2.describe_instances(InstanceIds=ids)
    refused("InvalidInstanceID.NotFound", ec2.terminate_instances, InstanceIds=["i-00000000000000000"])
    ec2.delete_launch_template(LaunchTemplateName=name)


def profiles(iam):
    name = "demo_1"
    iam.create_instance_profile(InstanceProfileName=name, Path="/karpenter/us-east-1/demo/1/", Tags=[{"Key": "a", "Value": "b"}])
    refused("EntityAlreadyExists", iam.create_instance_profile, InstanceProfileName=name)
    refused("NoSuchEntity", iam.add_role_to_instance_profile, InstanceProfileName=name, RoleName="none")
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName="KarpenterNodeRole-demo")
    iam.tag_instance_profile(InstanceProfileName=name, Tags=[{"Key": "c", "Value": "d"}])
    assert iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
    pages(iam, "list_instance_profiles", PathPrefix="/karpenter/")
    iam.get_role(RoleName="KarpenterNodeRole-demo")
    return name


def queue(sqs):
    queue_url = sqs.get_queue_url(QueueName="demo")["QueueUrl"]
    sqs.send_message(QueueUrl=queue_url, MessageBody="rubbish")
    got = sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=2, VisibilityTimeout=20,
                              MessageSystemAttributeNames=["All"])["Messages"]
    sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=got[0]["ReceiptHandle"])
    if got[1:]:
        entries = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(got[1:])]
        sqs.delete_message_batch(QueueUrl=queue_url, Entries=entries)
    sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])
    refused("AWS.SimpleQueueService.NonExistentQueue", sqs.get_queue_url, QueueName="none")


def others(ssm, eks, pricing, sts, shifts):
    recommended = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
    image = ssm.get_parameter(Name=recommended)["Parameter"]["Value"]
    ssm.get_parameters(Names=[recommended, "/none"])
    pages(ssm, "get_parameters_by_path", Path="/aws/service", Recursive=True)
    refused("ParameterNotFound", ssm.get_parameter, Name="/none")
    cluster = eks.describe_cluster(name="demo")["cluster"]
    assert cluster["certificateAuthority"]["data"]
    control("POST", "/_emulator/faults", [{"shift": {"zone": "us-east-1a", "minutes": 60}}])
    managed = shifts.get_managed_resource(resourceIdentifier=cluster["arn"])
    assert [one["awayFrom"] for one in managed["zonalShifts"]] == ["use1-az6"]
    refused("ResourceNotFoundException", shifts.get_managed_resource, resourceIdentifier=cluster["arn"] + "x")
    control("POST", "/_emulator/faults", [{"shift": {"zone": "us-east-1a", "minutes": 0}}])
    refused("ResourceNotFoundException", eks.describe_cluster, name="none")
    product = json.loads(pricing.get_products(ServiceCode="AmazonEC2", MaxResults=3)["PriceList"][0])
    assert product["terms"]["OnDemand"]
    sts.get_caller_identity()
    sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="session")
    sts.assume_role_with_web_identity(RoleArn="arn:aws:iam::123456789012:role/x", RoleSessionName="session", WebIdentityToken="t" * 8)
    return image


control("POST", "/_emulator/faults", [{"lag": [0, 0]}])
ec2 = client("ec2")
catalogue(ec2)
image = others(client("ssm"), client("eks"), client("pricing"), client("sts"), client("arc-zonal-shift"))
profile = profiles(iam := client("iam"))
ids, template = launches(ec2, image, profile)
instances(ec2, ids, template)
queue(client("sqs"))
iam.remove_role_from_instance_profile(InstanceProfileName=profile, RoleName="KarpenterNodeRole-demo")
iam.delete_instance_profile(InstanceProfileName=profile)
for finding in dict.fromkeys(findings):
    print(finding)
print(f"{calls} calls, {nodes} nodes, {len(findings)} findings")
sys.exit(1 if findings else 0)
