//! Each action: a request in, the reply as text out.

use crate::common::{START, ec2, fleet, form, get, reply, shown, target, template, text, world};
use expect_test::expect;
use longshore_emulator::{Response, Time, handle, resume};

/// The first lines of a text.
fn head(text: &str, lines: usize) -> String {
    text.lines()
        .take(lines)
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn types_offerings_zones_and_prices_are_described() {
    let world = &mut world();
    let types = "Action=DescribeInstanceTypes&Filter.1.Name=processor-info.supported-architecture\
                 &Filter.1.Value.1=arm64&MaxResults=5";
    let page = ec2(world, types);
    assert_eq!(page.matches("instanceType ").count(), 5, "{page}");
    let next = format!("{types}&NextToken={}", text(&page, "nextToken"));
    let last = ec2(world, &next);
    assert_eq!(last.matches("instanceType ").count(), 1, "{last}");
    let one = ec2(
        world,
        "Action=DescribeInstanceTypes&InstanceType.1=inf2.xlarge",
    );
    for line in [
        "sizeInMiB 16384",
        "member",
        "name Inferentia2",
        "defaultVCpus 4",
    ] {
        assert!(one.contains(line), "{line} in {one}");
    }
    let offered = "Action=DescribeInstanceTypeOfferings&LocationType=availability-zone\
                   &Filter.1.Name=instance-type&Filter.1.Value.1=m5.l*";
    expect![[r#"
        200
        DescribeInstanceTypeOfferingsResponse
          requestId cb435c8e-7461-6796-6775-dc7701564f61
          instanceTypeOfferingSet
            item
              instanceType m5.large
              locationType availability-zone
              location us-east-1a
            item
              instanceType m5.large
              locationType availability-zone
              location us-east-1b
            item
              instanceType m5.large
              locationType availability-zone
              location us-east-1c
    "#]]
    .assert_eq(&ec2(world, offered));
    expect![[r#"
        200
        DescribeAvailabilityZonesResponse
          requestId 7476cf8a-4baa-5dc0-87b3-41d690d7a28a
          availabilityZoneInfo
            item
              zoneName us-east-1b
              zoneId use1-az1
              zoneState available
              zoneType availability-zone
              regionName us-east-1
              groupName us-east-1
              networkBorderGroup us-east-1
              optInStatus opt-in-not-required
    "#]]
    .assert_eq(&head(
        &ec2(
            world,
            "Action=DescribeAvailabilityZones&ZoneName.1=us-east-1b",
        ),
        20,
    ));
    let prices = "Action=DescribeSpotPriceHistory&InstanceType.1=m5.large\
                  &StartTime=2026-11-25T06:38:03Z&ProductDescription.1=Linux%2FUNIX";
    expect![[r#"
        200
        DescribeSpotPriceHistoryResponse
          requestId 2ac2ce17-a579-4a3b-a534-a6a6b7fd0b63
          spotPriceHistorySet
            item
              instanceType m5.large
              productDescription Linux/UNIX
              spotPrice 0.047120
              timestamp 2026-11-25T05:38:03.000Z
              availabilityZone us-east-1a
    "#]]
    .assert_eq(&head(&ec2(world, prices), 10));
    let scores = "Action=GetSpotPlacementScores&InstanceType.1=m5.large&InstanceType.2=c5.large\
                  &InstanceType.3=r5.large&TargetCapacity=10&SingleAvailabilityZone=true";
    expect![[r#"
        200
        GetSpotPlacementScoresResponse
          requestId ae843796-30af-89ee-e263-183773ef6508
          spotPlacementScoreSet
            item
              region us-east-1
              availabilityZoneId use1-az1
              score 10
            item
              region us-east-1
              availabilityZoneId use1-az2
              score 9
            item
              region us-east-1
              availabilityZoneId use1-az6
              score 9
    "#]]
    .assert_eq(&ec2(world, scores));
}

#[test]
fn the_network_and_images_are_described() {
    let world = &mut world();
    let subnets = "Action=DescribeSubnets&Filter.1.Name=tag:karpenter.sh/discovery\
                   &Filter.1.Value.1=demo&Filter.2.Name=availability-zone&Filter.2.Value.1=*b";
    expect![[r#"
        200
        DescribeSubnetsResponse
          requestId 910a2dec-8902-5cc1-beeb-8da1658eec67
          subnetSet
            item
              subnetId subnet-00000000000000002
              subnetArn arn:aws:ec2:us-east-1:123456789012:subnet/subnet-00000000000000002
              state available
              ownerId 123456789012
              vpcId vpc-0a1b2c3d4e5f60718
              cidrBlock 10.0.32.0/19
              availableIpAddressCount 8187
              availabilityZone us-east-1b
              availabilityZoneId use1-az1
              defaultForAz false
              mapPublicIpOnLaunch false
              assignIpv6AddressOnCreation false
              tagSet
                item
                  key karpenter.sh/discovery
                  value demo
    "#]]
    .assert_eq(&ec2(world, subnets));
    expect![[r#"
        200
        DescribeSecurityGroupsResponse
          requestId 71c18690-ee42-c90b-71bb-54d8d101b5b9
          securityGroupInfo
            item
              ownerId 123456789012
              groupId sg-00000000000000001
              groupName nodes
              groupDescription nodes
              vpcId vpc-0a1b2c3d4e5f60718
              ipPermissions/
              ipPermissionsEgress/
              tagSet
                item
                  key karpenter.sh/discovery
                  value demo
    "#]]
    .assert_eq(&ec2(
        world,
        "Action=DescribeSecurityGroups&Filter.1.Name=tag-key&Filter.1.Value.1=karpenter.sh/*",
    ));
    let images = "Action=DescribeImages&Owner.1=amazon&Filter.1.Name=name\
                  &Filter.1.Value.1=bottlerocket-*-nvidia-arm64-*&IncludeDeprecated=true";
    expect![[r#"
        200
        DescribeImagesResponse
          requestId e099ec6c-d736-3ca5-85e7-bb0f12278575
          imagesSet
            item
              imageId ami-00000000000000a08
              name bottlerocket-aws-k8s-1.36-nvidia-arm64-v1.50.0
              imageLocation amazon/bottlerocket-aws-k8s-1.36-nvidia-arm64-v1.50.0
              imageState available
              imageOwnerId 137112412989
              isPublic true
              architecture arm64
              imageType machine
              creationDate 2026-10-01T00:00:00.000Z
              rootDeviceType ebs
              rootDeviceName /dev/xvda
              virtualizationType hvm
              hypervisor xen
              enaSupport true
              platformDetails Linux/UNIX
              imageOwnerAlias amazon
              deprecationTime 2028-10-01T00:00:00.000Z
    "#]]
    .assert_eq(&ec2(world, images));
    expect![[r#"
        200
        DescribeVpcsResponse
          requestId cb435c8e-7461-6796-6775-dc7701564f61
          vpcSet
            item
              vpcId vpc-0a1b2c3d4e5f60718
    "#]]
    .assert_eq(&head(&ec2(world, "Action=DescribeVpcs"), 6));
    expect![[r#"
        200
        DescribeCapacityReservationsResponse
          requestId 7476cf8a-4baa-5dc0-87b3-41d690d7a28a
          capacityReservationSet/
    "#]]
    .assert_eq(&ec2(
        world,
        "Action=DescribeCapacityReservations&Filter.1.Name=state&Filter.1.Value.1=active",
    ));
    expect![[r#"
        400
        Response
          Errors
            Error
              Code InvalidPlacementGroup.Unknown
              Message The placement group &apos;none&apos; is unknown.
          RequestID 2ac2ce17-a579-4a3b-a534-a6a6b7fd0b63
    "#]]
    .assert_eq(&ec2(
        world,
        "Action=DescribePlacementGroups&GroupName.1=none",
    ));
}

#[test]
fn a_launch_template_is_created_described_and_deleted() {
    let world = &mut world();
    let id = template(
        world,
        "&LaunchTemplateData.BlockDeviceMapping.1.DeviceName=/dev/xvda\
         &LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize=20\
         &TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=a\
         &TagSpecification.1.Tag.1.Value=b",
    );
    expect![[r#"
        200
        DescribeLaunchTemplateVersionsResponse
          requestId c34d0bff-9015-0280-e099-ec6cd7363ca5
          launchTemplateVersionSet
            item
              launchTemplateId lt-71c18690ee42c90b7
              launchTemplateName ttt
              versionNumber 1
              createTime 2026-11-25T06:38:03.000Z
              createdBy arn:aws:iam::123456789012:user/emulator
              defaultVersion true
              launchTemplateData
                blockDeviceMappingSet
                  item
                    deviceName /dev/xvda
                    ebs
                      volumeSize 20
                imageId ami-00000000000000a00
                networkInterfaceSet
                  item
                    deviceIndex 0
                    groupSet
                      groupId sg-00000000000000001
    "#]]
    .assert_eq(&ec2(
        world,
        &format!("Action=DescribeLaunchTemplateVersions&LaunchTemplateId={id}"),
    ));
    let tagged = "Action=DescribeLaunchTemplates&Filter.1.Name=tag:a&Filter.1.Value.1=b";
    expect![[r#"
        200
        DescribeLaunchTemplatesResponse
          requestId 491718de-357e-3da8-cb43-5c8e74616796
          launchTemplates
            item
              launchTemplateId lt-71c18690ee42c90b7
              launchTemplateName ttt
              createTime 2026-11-25T06:38:03.000Z
              createdBy arn:aws:iam::123456789012:user/emulator
              defaultVersionNumber 1
              latestVersionNumber 1
              tagSet
                item
                  key a
                  value b
    "#]]
    .assert_eq(&ec2(world, tagged));
    let again = "Action=CreateLaunchTemplate&LaunchTemplateName=ttt&LaunchTemplateData.ImageId=x";
    expect![[r#"
        400
        Response
          Errors
            Error
              Code InvalidLaunchTemplateName.AlreadyExistsException
              Message Launch template name already in use: ttt
          RequestID 9afcd44d-14cf-8bfe-7476-cf8a4baa5dc0
    "#]]
    .assert_eq(&ec2(world, again));
    ec2(world, "Action=DeleteLaunchTemplate&LaunchTemplateName=ttt");
    expect![[r#"
        400
        Response
          Errors
            Error
              Code InvalidLaunchTemplateName.NotFoundException
              Message At least one of the launch templates specified in the request does not exist: ttt
          RequestID d0bad0da-572b-aaf1-ae84-379630af89ee
    "#]].assert_eq(&ec2(
        world,
        "Action=DescribeLaunchTemplates&LaunchTemplateName.1=ttt",
    ));
    let large = format!(
        "Action=CreateLaunchTemplate&LaunchTemplateName=large&LaunchTemplateData.UserData={}",
        "QUFB".repeat(5462)
    );
    expect![[r#"
        400
        Response
          Errors
            Error
              Code InvalidParameterValue
              Message User data is limited to 16384 bytes
          RequestID 10e2c468-65e9-8746-14d7-973c5c2a449c
    "#]]
    .assert_eq(&ec2(world, &large));
}

#[test]
fn a_fleet_is_bought_described_tagged_and_terminated() {
    let world = &mut world();
    template(world, "");
    let tags = "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=k\
                &TagSpecification.1.Tag.1.Value=v";
    let pools = [("m5.large", 'a'), ("m5.xlarge", 'b')];
    let bought = ec2(world, &fleet(1, "on-demand", &pools, tags));
    expect![[r#"
        200
        CreateFleetResponse
          requestId c34d0bff-9015-0280-e099-ec6cd7363ca5
          fleetId fleet-e2631837-73ef-6508-10e2-c46865e98746
          errorSet/
          fleetInstanceSet
            item
              launchTemplateAndOverrides
                launchTemplateSpecification
                  launchTemplateId lt-71c18690ee42c90b7
                  launchTemplateName ttt
                  version 1
                overrides
                  instanceType m5.large
                  subnetId subnet-00000000000000001
                  availabilityZone us-east-1a
              lifecycle on-demand
              instanceIds
                item i-6775dc7701564f619
              instanceType m5.large
    "#]]
    .assert_eq(&bought);
    let id = text(&bought, "item").to_owned();
    let tag = format!("Action=CreateTags&ResourceId.1={id}&Tag.1.Key=Name&Tag.1.Value=n");
    ec2(world, &tag);
    ec2(
        world,
        &format!("Action=DeleteTags&ResourceId.1={id}&Tag.1.Key=k"),
    );
    let later = START.plus(60_000);
    let describe = format!("Action=DescribeInstances&InstanceId.1={id}");
    expect![[r#"
        200
        DescribeInstancesResponse
          requestId 962b1967-c907-89ba-65ac-e2685a072c6d
          reservationSet
            item
              reservationId r-491718de357e3da8c
              ownerId 123456789012
              groupSet/
              instancesSet
                item
                  instanceId i-6775dc7701564f619
                  imageId ami-00000000000000a00
                  instanceState
                    code 16
                    name running
                  privateDnsName ip-10-0-0-4.ec2.internal
                  dnsName
                  reason
                  amiLaunchIndex 0
                  productCodes/
                  instanceType m5.large
                  launchTime 2026-11-25T06:38:03.000Z
                  placement
                    availabilityZone us-east-1a
                    availabilityZoneId use1-az6
                    tenancy default
                  monitoring
                    state disabled
                  architecture x86_64
                  rootDeviceType ebs
                  rootDeviceName /dev/xvda
                  virtualizationType hvm
                  clientToken
                  hypervisor xen
                  ebsOptimized false
                  enaSupport true
                  groupSet
                    item
                      groupId sg-00000000000000001
                      groupName nodes
                  subnetId subnet-00000000000000001
                  vpcId vpc-0a1b2c3d4e5f60718
                  privateIpAddress 10.0.0.4
                  sourceDestCheck true
                  networkInterfaceSet
                    item
                      networkInterfaceId eni-7476cf8a4baa5dc08
                      subnetId subnet-00000000000000001
                      vpcId vpc-0a1b2c3d4e5f60718
                      ownerId 123456789012
                      status in-use
                      interfaceType interface
                      privateIpAddress 10.0.0.4
                      groupSet
                        item
                          groupId sg-00000000000000001
                          groupName nodes
                      attachment
                        deviceIndex 0
                        networkCardIndex 0
                        status attached
                        deleteOnTermination true
                  metadataOptions
                    state applied
                    httpTokens optional
                    httpPutResponseHopLimit 1
                    httpEndpoint enabled
                    httpProtocolIpv6 disabled
                    instanceMetadataTags disabled
                  tagSet
                    item
                      key Name
                      value n
    "#]]
    .assert_eq(&shown(&reply(world, later, &form("ec2", &describe))));
    let status = "Action=DescribeInstanceStatus";
    expect![[r#"
        200
        DescribeInstanceStatusResponse
          requestId 40d6824e-2ef3-fc17-879e-2e2256feff0c
          instanceStatusSet
            item
              instanceId i-6775dc7701564f619
              availabilityZone us-east-1a
              availabilityZoneId use1-az6
              instanceState
                code 16
                name running
              instanceStatus
                status ok
                details
                  item
                    name reachability
                    status passed
              systemStatus
                status ok
                details
                  item
                    name reachability
                    status passed
    "#]]
    .assert_eq(&shown(&reply(world, later, &form("ec2", status))));
    let end = format!("Action=TerminateInstances&InstanceId.1={id}");
    expect![[r#"
        200
        TerminateInstancesResponse
          requestId bf8c59bb-0035-53c1-d16a-a4b296eb9d18
          instancesSet
            item
              instanceId i-6775dc7701564f619
              currentState
                code 32
                name shutting-down
              previousState
                code 16
                name running
    "#]]
    .assert_eq(&shown(&reply(world, later, &form("ec2", &end))));
    let state = |world: &mut _, at: Time| {
        let found = shown(&reply(world, at, &form("ec2", &describe)));
        found
            .lines()
            .find_map(|line| line.trim().strip_prefix("name ").map(str::to_owned))
    };
    assert_eq!(state(world, later).as_deref(), Some("shutting-down"));
    assert_eq!(
        state(world, later.plus(60_000)).as_deref(),
        Some("terminated")
    );
    let gone = shown(&reply(
        world,
        later.plus(3_700_000),
        &form("ec2", &describe),
    ));
    assert_eq!(text(&gone, "Code"), "InvalidInstanceID.NotFound");
}

#[test]
fn dry_runs_and_wrong_requests_are_answered_as_ec2_does() {
    let world = &mut world();
    template(world, "");
    let dry = fleet(1, "spot", &[("m5.large", 'a')], "&DryRun=true");
    expect![[r#"
        412
        Response
          Errors
            Error
              Code DryRunOperation
              Message Request would have succeeded, but DryRun flag is set.
          RequestID c34d0bff-9015-0280-e099-ec6cd7363ca5
    "#]]
    .assert_eq(&ec2(world, &dry));
    let run = "Action=RunInstances&DryRun=true&MinCount=1&MaxCount=1&InstanceType=m6g.large&LaunchTemplate.LaunchTemplateName=ttt&LaunchTemplate.Version=$Latest";
    expect![[r#"
        400
        Response
          Errors
            Error
              Code InvalidParameterValue
              Message The architecture &apos;arm64&apos; of the specified instance type does not match the architecture &apos;x86_64&apos; of the specified AMI.
          RequestID 491718de-357e-3da8-cb43-5c8e74616796
    "#]].assert_eq(&ec2(world, run));
    for (query, code) in [
        ("Action=StopInstances", "InvalidAction"),
        ("Action=RebootInstances", "MissingParameter"),
        ("Action=DescribeInstances&Colour=red", "UnknownParameter"),
        (
            "Action=DescribeInstances&Filter.1.Name=colour&Filter.1.Value.1=red",
            "InvalidParameterValue",
        ),
        (
            "Action=DescribeInstances&InstanceId.1=i-1",
            "InvalidInstanceID.NotFound",
        ),
        (
            "Action=DescribeInstances&InstanceId.1=x",
            "InvalidInstanceID.Malformed",
        ),
        ("Action=DescribeInstances&NextToken=%21", "InvalidNextToken"),
        (
            "Action=DescribeSubnets&SubnetId.1=subnet-x",
            "InvalidSubnetID.NotFound",
        ),
        (
            "Action=DescribeImages&ImageId.1=ami-x",
            "InvalidAMIID.NotFound",
        ),
        (
            "Action=DescribeInstanceTypes&MaxResults=3",
            "InvalidParameterValue",
        ),
        (
            "Action=DescribeInstanceTypes&DryRun=true",
            "DryRunOperation",
        ),
        ("Action=TerminateInstances", "MissingParameter"),
    ] {
        assert_eq!(text(&ec2(world, query), "Code"), code, "{query}");
    }
}

#[test]
fn a_queue_hands_out_messages_and_waits_for_them() {
    let world = &mut world();
    let url = "http://127.0.0.1:4566/123456789012/demo";
    let call = |world: &mut _, action: &str, body: String| {
        shown(&reply(
            world,
            START,
            &target(&format!("AmazonSQS.{action}"), &body),
        ))
    };
    let found = call(world, "GetQueueUrl", "{\"QueueName\":\"demo\"}".to_owned());
    assert_eq!(found, format!("200 {{\"QueueUrl\":\"{url}\"}}\n"));
    let send = format!("{{\"QueueUrl\":\"{url}\",\"MessageBody\":\"hello\"}}");
    expect![[r#"
        200 {"MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592",
        "MessageId":"e099ec6c-d736-3ca5-85e7-bb0f12278575"}
    "#]]
    .assert_eq(&call(world, "SendMessage", send.clone()));
    let receive = format!(
        "{{\"QueueUrl\":\"{url}\",\"MaxNumberOfMessages\":10,\"WaitTimeSeconds\":20,\"VisibilityTimeout\":20}}"
    );
    let received = call(world, "ReceiveMessage", receive.clone());
    expect![[r#"
        200 {"Messages":[{"Body":"hello",
        "MD5OfBody":"5d41402abc4b2a76b9719d911017c592",
        "MessageId":"e099ec6c-d736-3ca5-85e7-bb0f12278575",
        "ReceiptHandle":"MTo3NDc2Y2Y4YTRiYWE1ZGMw"}]}
    "#]]
    .assert_eq(&received);
    // It is hidden for 20 seconds, then it comes again.
    let request = target("AmazonSQS.ReceiveMessage", &receive);
    let Response::Wait(wait) = handle(world, START, &request) else {
        panic!("the message is not hidden");
    };
    assert_eq!(world.next_change(), Some(START.plus(20_000)));
    let Response::Reply { reply: again, .. } = resume(world, START.plus(20_000), *wait) else {
        panic!("the message does not come again");
    };
    assert!(again.text().contains("hello"));
    let handle_of = received
        .split("ReceiptHandle\":\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    let batch = format!(
        "{{\"QueueUrl\":\"{url}\",\"Entries\":[{{\"Id\":\"a\",\"ReceiptHandle\":\"{}\"}},{{\"Id\":\"b\",\"ReceiptHandle\":\"rubbish\"}}]}}",
        handle_of.unwrap()
    );
    expect![[r#"
        200 {"Failed":[{"Code":"ReceiptHandleIsInvalid",
        "Id":"b",
        "Message":"The input receipt handle is invalid.",
        "SenderFault":true}],
        "Successful":[{"Id":"a"}]}
    "#]]
    .assert_eq(&call(world, "DeleteMessageBatch", batch));
    let count =
        format!("{{\"QueueUrl\":\"{url}\",\"AttributeNames\":[\"ApproximateNumberOfMessages\"]}}");
    expect![[r#"
        200 {"Attributes":{"ApproximateNumberOfMessages":"0"}}
    "#]]
    .assert_eq(&call(world, "GetQueueAttributes", count));
    let Response::Wait(wait) = handle(world, START.plus(20_000), &request) else {
        panic!("a message is left");
    };
    let until = wait.until;
    let Response::Reply { reply: empty, .. } = resume(world, until, *wait) else {
        panic!("a poll does not end");
    };
    assert_eq!((until, &*empty.text()), (START.plus(40_000), "{}"));
    let none = reply(
        world,
        until,
        &target("AmazonSQS.GetQueueUrl", "{\"QueueName\":\"no\"}"),
    );
    assert_eq!(
        none.header("x-amzn-query-error"),
        Some("AWS.SimpleQueueService.NonExistentQueue;Sender")
    );
    expect![[r#"
        400 {"__type":"com.amazonaws.sqs#QueueDoesNotExist",
        "message":"The specified queue does not exist."}
    "#]]
    .assert_eq(&shown(&none));
}

#[test]
fn parameters_clusters_prices_and_identities_are_answered() {
    let world = &mut world();
    let call = |world: &mut _, target_of: &str, body: &str| {
        shown(&reply(world, START, &target(target_of, body)))
    };
    let name = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let body = format!("{{\"Name\":\"{name}\"}}");
    expect![[r#"
        200 {"Parameter":{"ARN":"arn:aws:ssm:us-east-1:123456789012:parameter/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
        "DataType":"text",
        "LastModifiedDate":1760000000.0,
        "Name":"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
        "Type":"String",
        "Value":"ami-00000000000000a00",
        "Version":1}}
    "#]].assert_eq(&call(world, "AmazonSSM.GetParameter", &body));
    expect![[r#"
        400 {"__type":"ParameterNotFound","message":""}
    "#]]
    .assert_eq(&call(
        world,
        "AmazonSSM.GetParameter",
        "{\"Name\":\"/none\"}",
    ));
    expect![[r#"
        200 {"InvalidParameters":["/none"],"Parameters":[]}
    "#]]
    .assert_eq(&call(
        world,
        "AmazonSSM.GetParameters",
        "{\"Names\":[\"/none\"]}",
    ));
    let path = "{\"Path\":\"/aws/service/bottlerocket/aws-k8s-1.36/arm64\",\"Recursive\":true,\"MaxResults\":1}";
    expect![[r#"
        200 {"NextToken":"/aws/service/bottlerocket/aws-k8s-1.36/arm64/1.50.0/image_id",
        "Parameters":[{"ARN":"arn:aws:ssm:us-east-1:123456789012:parameter/aws/service/bottlerocket/aws-k8s-1.36/arm64/1.50.0/image_id",
        "DataType":"text",
        "LastModifiedDate":1760000000.0,
        "Name":"/aws/service/bottlerocket/aws-k8s-1.36/arm64/1.50.0/image_id",
        "Type":"String",
        "Value":"ami-00000000000000a07",
        "Version":1}]}
    "#]].assert_eq(&call(world, "AmazonSSM.GetParametersByPath", path));
    expect![[r#"
        400 {"__type":"UnknownOperationException",
        "message":"the operation PutParameter is not known here"}
    "#]]
    .assert_eq(&call(world, "AmazonSSM.PutParameter", "{}"));
    let products = "{\"ServiceCode\":\"AmazonEC2\",\"Filters\":[{\"Type\":\"TERM_MATCH\",\"Field\":\"instanceType\",\"Value\":\"m5.large\"},{\"Type\":\"TERM_MATCH\",\"Field\":\"tenancy\",\"Value\":\"Shared\"}]}";
    expect![[r#"
        200 {"FormatVersion":"aws_v1",
        "PriceList":["{\"product\":{\"attributes\":{\"capacitystatus\":\"Used\",
        \"instanceType\":\"m5.large\",
        \"marketoption\":\"OnDemand\",
        \"operatingSystem\":\"Linux\",
        \"preInstalledSw\":\"NA\",
        \"regionCode\":\"us-east-1\",
        \"servicecode\":\"AmazonEC2\",
        \"tenancy\":\"Shared\",
        \"vcpu\":\"2\"},
        \"productFamily\":\"Compute Instance\",
        \"sku\":\"3FEAFC80EA3DC764\"},
        \"publicationDate\":\"2026-11-01T00:00:00Z\",
        \"serviceCode\":\"AmazonEC2\",
        \"terms\":{\"OnDemand\":{\"3FEAFC80EA3DC764.JRTCKXETXF\":{\"effectiveDate\":\"2026-11-01T00:00:00Z\",
        \"offerTermCode\":\"JRTCKXETXF\",
        \"priceDimensions\":{\"3FEAFC80EA3DC764.JRTCKXETXF.6YS6EN2CT7\":{\"appliesTo\":[],
        \"beginRange\":\"0\",
        \"endRange\":\"Inf\",
        \"pricePerUnit\":{\"USD\":\"0.0960000000\"},
        \"rateCode\":\"3FEAFC80EA3DC764.JRTCKXETXF.6YS6EN2CT7\",
        \"unit\":\"Hrs\"}},
        \"sku\":\"3FEAFC80EA3DC764\",
        \"termAttributes\":{}}}},
        \"version\":\"20261101000000\"}"]}
    "#]].assert_eq(&call(world, "AWSPriceListService.GetProducts", products));
    expect![[r#"
        200 {"cluster":{"arn":"arn:aws:eks:us-east-1:123456789012:cluster/demo",
        "certificateAuthority":{"data":"Y2EtYnVuZGxl"},
        "createdAt":1760000000.0,
        "endpoint":"https://demo.eks.example",
        "kubernetesNetworkConfig":{"ipFamily":"ipv4",
        "serviceIpv4Cidr":"10.100.0.0/16"},
        "name":"demo",
        "platformVersion":"eks.1",
        "resourcesVpcConfig":{"endpointPrivateAccess":false,
        "endpointPublicAccess":true,
        "publicAccessCidrs":["0.0.0.0/0"],
        "securityGroupIds":["sg-00000000000000001"],
        "subnetIds":["subnet-00000000000000001",
        "subnet-00000000000000002",
        "subnet-00000000000000003"],
        "vpcId":"vpc-0a1b2c3d4e5f60718"},
        "roleArn":"arn:aws:iam::123456789012:role/eks-demo",
        "status":"ACTIVE",
        "tags":{},
        "version":"1.36"}}
    "#]]
    .assert_eq(&shown(&reply(world, START, &get("/clusters/demo"))));
    let none = reply(world, START, &get("/clusters/other"));
    assert_eq!(
        none.header("x-amzn-errortype"),
        Some("ResourceNotFoundException")
    );
    expect![[r#"
        404 {"message":"No cluster found for name: other."}
    "#]]
    .assert_eq(&shown(&none));
    expect![[r#"
        200
        GetCallerIdentityResponse
          GetCallerIdentityResult
            Arn arn:aws:iam::123456789012:user/emulator
            UserId AIDAEMULATOR00000000
            Account 123456789012
          ResponseMetadata
            RequestId 497305c5-d1aa-b99f-0c43-407dc177b6f7
    "#]]
    .assert_eq(&shown(&reply(
        world,
        START,
        &form("sts", "Action=GetCallerIdentity"),
    )));
    let assume = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName=s\
                  &WebIdentityToken=t&RoleArn=arn:aws:iam::123456789012:role/x";
    let mut unsigned = form("sts", assume);
    unsigned.headers.clear();
    expect![[r#"
        200
        AssumeRoleWithWebIdentityResponse
          AssumeRoleWithWebIdentityResult
            Credentials
              AccessKeyId ASIAE2N4XMVBY4GHDSBY
              SecretAccessKey 530e0e6118e9685e28bff9ea304d9f96e4d93032
              SessionToken e9a6100461edd57a4d4673ef77ba057421af8cfd4c4cbee5536000f4bd6ae8f8
              Expiration 2026-11-25T07:38:03.000Z
            AssumedRoleUser
              AssumedRoleId AROAE2N4XMVBY4GHDSBY:s
              Arn arn:aws:sts::123456789012:assumed-role/x/s
            SubjectFromWebIdentityToken system:serviceaccount:kube-system:longshore
            Audience sts.amazonaws.com
          ResponseMetadata
            RequestId b6b9aeef-0d2d-f7ab-0b33-1645445bcd27
    "#]]
    .assert_eq(&shown(&reply(world, START, &unsigned)));
    expect![[r#"
        400
        ErrorResponse
          Error
            Type Sender
            Code InvalidAction
            Message Could not find operation Nothing for version 2011-06-15
          RequestId f0af3ce4-29ca-1790-64c7-0b0b0c5b4a8f
    "#]]
    .assert_eq(&shown(&reply(world, START, &form("sts", "Action=Nothing"))));
}

#[test]
fn an_instance_profile_lives_and_dies() {
    let world = &mut world();
    let mut call = |query: &str| shown(&reply(world, START, &form("iam", query)));
    let create = "Action=CreateInstanceProfile&InstanceProfileName=p&Path=/karpenter/x/\
                  &Tags.member.1.Key=k&Tags.member.1.Value=v";
    expect![[r#"
        200
        CreateInstanceProfileResponse
          CreateInstanceProfileResult
            InstanceProfile
              Path /karpenter/x/
              InstanceProfileName p
              InstanceProfileId AIPALZAFVIWB6AKI3DROI
              Arn arn:aws:iam::123456789012:instance-profile/karpenter/x/p
              CreateDate 2026-11-25T06:38:03.000Z
              Roles/
              Tags
                member
                  Key k
                  Value v
          ResponseMetadata
            RequestId 910a2dec-8902-5cc1-beeb-8da1658eec67
    "#]]
    .assert_eq(&call(create));
    assert_eq!(text(&call(create), "Code"), "EntityAlreadyExists");
    let role = "Action=AddRoleToInstanceProfile&InstanceProfileName=p&RoleName=";
    expect![[r#"
        404
        ErrorResponse
          Error
            Type Sender
            Code NoSuchEntity
            Message The role with name none cannot be found.
          RequestId 1f841063-3ef3-06ac-4973-05c5d1aab99f
    "#]]
    .assert_eq(&call(&format!("{role}none")));
    expect![[r#"
        200
        AddRoleToInstanceProfileResponse
          ResponseMetadata
            RequestId 83f91ca7-864a-7135-b6b9-aeef0d2df7ab
    "#]]
    .assert_eq(&call(&format!("{role}KarpenterNodeRole-demo")));
    expect![[r#"
        200
        ListInstanceProfilesResponse
          ListInstanceProfilesResult
            InstanceProfiles
              member
                Path /karpenter/x/
                InstanceProfileName p
                InstanceProfileId AIPALZAFVIWB6AKI3DROI
                Arn arn:aws:iam::123456789012:instance-profile/karpenter/x/p
                CreateDate 2026-11-25T06:38:03.000Z
                Roles
                  member
                    Path /
                    RoleName KarpenterNodeRole-demo
                    RoleId AROAEMULATOR00000000
                    Arn arn:aws:iam::123456789012:role/KarpenterNodeRole-demo
                    CreateDate 2025-10-09T08:53:20.000Z
                    AssumeRolePolicyDocument %7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%5D%7D
            IsTruncated false
          ResponseMetadata
            RequestId ff6c67e8-1909-778a-990c-d70b12c5d084
    "#]].assert_eq(&call("Action=ListInstanceProfiles&PathPrefix=/karpenter/"));
    assert!(!call("Action=ListInstanceProfiles&PathPrefix=/other/").contains("member"));
    let delete = "Action=DeleteInstanceProfile&InstanceProfileName=p";
    assert_eq!(text(&call(delete), "Code"), "DeleteConflict");
    call(
        "Action=TagInstanceProfile&InstanceProfileName=p&Tags.member.1.Key=z&Tags.member.1.Value=",
    );
    assert!(call("Action=GetInstanceProfile&InstanceProfileName=p").contains("Key z"));
    call(
        "Action=RemoveRoleFromInstanceProfile&InstanceProfileName=p&RoleName=KarpenterNodeRole-demo",
    );
    assert!(call(delete).starts_with("200"));
    assert_eq!(
        text(
            &call("Action=GetInstanceProfile&InstanceProfileName=p"),
            "Code"
        ),
        "NoSuchEntity"
    );
    expect![[r#"
        200
        GetRoleResponse
          GetRoleResult
            Role
              Path /
              RoleName KarpenterNodeRole-demo
              RoleId AROAEMULATOR00000000
              Arn arn:aws:iam::123456789012:role/KarpenterNodeRole-demo
              CreateDate 2025-10-09T08:53:20.000Z
              AssumeRolePolicyDocument %7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%5D%7D
          ResponseMetadata
            RequestId f0af3ce4-29ca-1790-64c7-0b0b0c5b4a8f
    "#]].assert_eq(&call("Action=GetRole&RoleName=KarpenterNodeRole-demo"));
}
