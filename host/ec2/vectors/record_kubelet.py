#!/usr/bin/env python3
"""Records which settings the kubelet refuses: `kubelet.jsonl`.

Usage: record_kubelet.py NODEADM 36=KUBELET 37=KUBELET > kubelet.jsonl

The programs are those of record_readers.py; the second KUBELET is built over k8s.io/kubernetes 1.37.2.
Each setting stands once as a drop-in on the file that nodeadm writes (base `nodeadm`), and once in a
file of its own (base `bare`). Recorded on 27 November 2026.

`kubelet_start.jsonl` has rows of the same form for what is refused after validation too. It was recorded
on 28 November 2026 over k8s.io/kubernetes 1.36.4 alone, by a KUBELET that goes on as the kubelet's command
does: TLSCipherSuites, TLSVersion and TLSCurvePreferences of component-base, the amounts of both reserved
maps, eviction.ParseThresholdConfig and sysctl.NewAllowlist. Its settings are single ones of these kinds, and
pairs of them drawn with a fixed seed. Built without a version, KUBELET cannot say which hidden metrics
it shows; that one value is left out. Its last rows, with gates of all of a stage, are of the same day and of
loading and validation alone; where the kubelet names features in random order, the reason is shortened.
"""

import json
import subprocess
import sys

CASES = []
def case(**settings):
    CASES.append(settings)

for field, values in {
 'imageGCHighThresholdPercent':[0,50,80,81,85,100,101],'imageGCLowThresholdPercent':[0,79,80,84,85,90,-1],
 'nodeLeaseDurationSeconds':[0,1,-1],'eventBurst':[0,-1,5],'eventRecordQPS':[0,-1],'healthzPort':[0,-1,70000,10248],'readOnlyPort':[0,70000],
 'port':[0,10250,-1,70000],'iptablesDropBit':[0,31,32,-1],'iptablesMasqueradeBit':[14,32],'kubeAPIBurst':[-1,0],'kubeAPIQPS':[-1,0],
 'nodeStatusMaxImages':[-1,-2,0],'maxOpenFiles':[-1,0],'maxPods':[0,-1,58],'podsPerCore':[0,-1,20],'oomScoreAdj':[-1000,-1001,1000,1001,-2000],
 'registryBurst':[-1,0],'registryPullQPS':[-1,0],'maxParallelImagePulls':[0,1,2,5,-1],'containerLogMaxWorkers':[0,1,5],'containerLogMaxFiles':[0,1,2],
 'podPidsLimit':[0,-1,-5,1000],'topologyManagerPolicy':['','none','best-effort','restricted','single-numa-node','numa'],'topologyManagerScope':['pod','container','node',''],
 'hairpinMode':['none','hairpin-veth','promiscuous-bridge','veth',''],'memoryReservationPolicy':['None','TieredReservation','Tiered',''],
 'imagePullCredentialsVerificationPolicy':['NeverVerify','NeverVerifyPreloadedImages','NeverVerifyAllowlistedImages','AlwaysVerify','Sometimes',''],
 'containerLogMonitorInterval':['1s','2999ms','3s','0s','1m'],'podLogsDir':['logs','/var/log/pods','/var/log/pods/','/var/../log','/var//log','/','/var/lög'],
 'imageMinimumGCAge':['0s','-1s','5m'],'imageMaximumGCAge':['0s','1m','2m','2m1s','24h','-1h'],
 'shutdownGracePeriod':['0s','20s','30s','31s','500ms','-1s','5m'],'shutdownGracePeriodCriticalPods':['0s','10s','2m30s','2m31s','500ms'],
 'cpuCFSQuotaPeriod':['100ms','50ms','1ms','1s','2s','500us','0s'],'memoryThrottlingFactor':[0.9,0.8,1.0,1.1,0,-0.5],
 'reservedSystemCPUs':['0','0-3','x',''],'runOnce':[True,False],'serverTLSBootstrap':[True,False],'systemCgroups':['/sys',''],
 'enforceNodeAllocatable':[['pods'],[],['none'],['pods','none'],['pods','pods'],['system-reserved'],['kube-reserved','system-reserved'],['system-reserved-compressible'],['system-reserved','system-reserved-compressible'],['kube-reserved','kube-reserved-compressible'],['all']],
 'cgroupsPerQOS':[True,False],'enableSystemLogQuery':[True,False],'enableSystemLogHandler':[False],'serializeImagePulls':[True,False],
 'evictionHard':[{'memory.available':'5%'},None,{}],'featureGates':[{'NoSuchGate':True},{'InPlacePodVerticalScaling':False},{'InPlacePodVerticalScaling':True},{'DynamicResourceAllocation':False},{'NodeSwap':False},{'NodeSwap':True},{'MemoryQoS':True},{'KubeletCrashLoopBackOffMax':False},{'KubeletEnsureSecretPulledImages':False},{'RotateKubeletServerCertificate':False},{'GracefulNodeShutdown':False},{'CustomCPUCFSQuotaPeriod':True},{'ImageMaximumGCAge':False},{'NodeLogQuery':True},{'nodeswap':True},{'AllAlpha':False},{'AllBeta':True},{'CPUManagerPolicyAlphaOptions':True},{'LoggingAlphaOptions':True}],
 'memorySwap':[{},{'swapBehavior':''},{'swapBehavior':'LimitedSwap'},{'swapBehavior':'NoSwap'},{'swapBehavior':'UnlimitedSwap'},{'swapBehavior':'Swap'}],
 'crashLoopBackOff':[{},{'maxContainerRestartPeriod':'1s'},{'maxContainerRestartPeriod':'300s'},{'maxContainerRestartPeriod':'301s'},{'maxContainerRestartPeriod':'500ms'},{'maxContainerRestartPeriod':'0s'},None],
 'userNamespaces':[{'idsPerPod':65536},{'idsPerPod':1000},{'idsPerPod':65537},{'idsPerPod':131072},{'idsPerPod':4294967296}],
 'logging':[{'format':'json'},{'format':'text'},{'format':'xml'},{'verbosity':4},{'verbosity':3000000000},{'vmodule':[{'filePattern':'a','verbosity':3}]},{'vmodule':[{'filePattern':'a=b','verbosity':3}]},{'vmodule':[{'filePattern':'','verbosity':3}]},{'format':'json','vmodule':[{'filePattern':'a','verbosity':3}]},{'options':{'json':{'splitStream':True}}},{'options':{'text':{'infoBufferSize':'1Mi'}}},{'flushFrequency':'5s'}],
 'tracing':[{},{'samplingRatePerMillion':1000},{'samplingRatePerMillion':-1},{'samplingRatePerMillion':1000001},{'endpoint':'localhost:4317'},{'endpoint':'http://x:1'},{'endpoint':'unix:///run/x'}],
 'reservedMemory':[[{'numaNode':0,'limits':{'memory':'1Gi'}}],[{'numaNode':0,'limits':{'memory':'0'}}],[{'numaNode':0,'limits':{'cpu':'1'}}],[{'numaNode':0,'limits':{'memory':'1Gi'}},{'numaNode':0,'limits':{'memory':'2Gi'}}],[{'numaNode':0,'limits':{'hugepages-2Mi':'4Mi'}}]],
 'shutdownGracePeriodByPodPriority':[[{'priority':0,'shutdownGracePeriodSeconds':60}],[]],'preloadedImagesVerificationAllowlist':[['a/b'],[]],
 'defaultPodSysctls':[{'net.core.somaxconn':'1024'},{}],'qosReserved':[{'memory':'50%'}],'allowedUnsafeSysctls':[['net.*'],['kernel.msg*']],
 'failSwapOn':[False],'cpuManagerPolicy':['static','none'],'memoryManagerPolicy':['None','Static'],'kubeReservedCgroup':[''],'singleProcessOOMKill':[True],'clusterDNS':[[],['x']],
 'providerID':['x'],'kubeReserved':[None,{'cpu':'1'}],'protectKernelDefaults':[False],'cgroupRoot':[''],'address':['::'],
}.items():
    for value in values: case(**{field: value})
case(imageGCHighThresholdPercent=60,imageGCLowThresholdPercent=50)
case(imageGCHighThresholdPercent=50,imageGCLowThresholdPercent=60)
case(shutdownGracePeriod='0s',shutdownGracePeriodCriticalPods='0s')
case(shutdownGracePeriod='60s',shutdownGracePeriodCriticalPods='20s')
case(shutdownGracePeriod='10s',shutdownGracePeriodCriticalPods='20s')
case(shutdownGracePeriod='0s',shutdownGracePeriodCriticalPods='0s',shutdownGracePeriodByPodPriority=[{'priority':0,'shutdownGracePeriodSeconds':60}])
case(reservedSystemCPUs='0-1',systemReservedCgroup='',kubeReservedCgroup='')
case(reservedSystemCPUs='3-1',systemReservedCgroup='',kubeReservedCgroup='')
case(reservedSystemCPUs='0,2-3',systemReservedCgroup=None,kubeReservedCgroup=None)
case(serializeImagePulls=True,maxParallelImagePulls=5)
case(serializeImagePulls=None,maxParallelImagePulls=5)
case(serializeImagePulls=None,maxParallelImagePulls=1)
case(cgroupsPerQOS=False,enforceNodeAllocatable=['none'])
case(cgroupsPerQOS=False,enforceNodeAllocatable=[])
case(enableSystemLogQuery=True,featureGates={'NodeLogQuery':True})
case(enableSystemLogQuery=True,enableSystemLogHandler=False,featureGates={'NodeLogQuery':True})
case(featureGates={'NodeSwap':False},memorySwap={'swapBehavior':'LimitedSwap'})
case(featureGates={'KubeletCrashLoopBackOffMax':False},crashLoopBackOff=None)
case(featureGates={'KubeletCrashLoopBackOffMax':False},crashLoopBackOff={'maxContainerRestartPeriod':None})
case(featureGates={'KubeletCrashLoopBackOffMax':False},crashLoopBackOff={'maxContainerRestartPeriod':'10s'})
case(featureGates={'KubeletCrashLoopBackOffMax':True},crashLoopBackOff={'maxContainerRestartPeriod':'10s'})
case(featureGates={'KubeletEnsureSecretPulledImages':False},imagePullCredentialsVerificationPolicy='')
case(featureGates={'KubeletEnsureSecretPulledImages':False},imagePullCredentialsVerificationPolicy=None)
case(featureGates={'KubeletEnsureSecretPulledImages':False},imagePullCredentialsVerificationPolicy='AlwaysVerify')
case(imagePullCredentialsVerificationPolicy='NeverVerifyAllowlistedImages',preloadedImagesVerificationAllowlist=['a/b'])
case(featureGates={'GracefulNodeShutdown':False},shutdownGracePeriod='0s',shutdownGracePeriodCriticalPods='0s')
case(featureGates={'CustomCPUCFSQuotaPeriod':True},cpuCFSQuotaPeriod='50ms')
case(featureGates={'CustomCPUCFSQuotaPeriod':True},cpuCFSQuotaPeriod='2s')
case(featureGates={'MemoryQoS':True},memoryThrottlingFactor=0.8)
case(featureGates={'MemoryQoS':True},memoryReservationPolicy='TieredReservation')
case(featureGates={'ImageMaximumGCAge':False},imageMaximumGCAge='24h')
case(imageMinimumGCAge='48h',imageMaximumGCAge='24h')
case(featureGates={'RotateKubeletServerCertificate':False},serverTLSBootstrap=False)
case(featureGates={'LoggingAlphaOptions':True},logging={'options':{'json':{'splitStream':True}}})
case(featureGates={'DefaultPodSysctls':True},defaultPodSysctls={'net.core.somaxconn':'1024'})
case(systemCgroups='/sys',cgroupRoot='')

TYPE = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
NODE_CONFIG = {
    "apiVersion": "node.eks.aws/v1alpha1",
    "kind": "NodeConfig",
    "spec": {"cluster": {
        "name": "demo", "apiServerEndpoint": "https://e", "certificateAuthority": "Y2E=", "cidr": "10.100.0.0/16",
    }},
}


def ask(program, rows):
    lines = "\n".join(json.dumps(row) for row in rows)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(nodeadm, *kubelets):
    kubelets = dict(one.split("=", 1) for one in kubelets)
    for base in ("nodeadm", "bare"):
        answers = {}
        for minor, program in kubelets.items():
            # The machine that records may have cgroups of version 1.
            more = {"failCgroupV1": False}
            node = {"name": "", "version": f"v1.{minor}.0", "userData": json.dumps(NODE_CONFIG)}
            file = dict(ask(nodeadm, [node])[0]["base"], **more)
            rows = []
            for at, settings in enumerate(CASES):
                if base == "bare":
                    rows.append({"name": str(at), "base": {**TYPE, **more, **settings}, "dropin": None})
                else:
                    rows.append({"name": str(at), "base": file, "dropin": {**TYPE, **settings}})
            answers[minor] = ask(program, rows)
        for at, settings in enumerate(CASES):
            row = {"base": base, "settings": settings}
            for minor in kubelets:
                own = answers[minor][at]
                text = "" if own["stage"] == "ok" else f"{own['stage']}: {own['error']}"
                defaults = "failed to merge global and in-flight KubeletConfiguration while setting defaults, error: "
                row[f"1.{minor}"] = text.replace(defaults, "")[:200]
            print(json.dumps(row, ensure_ascii=False, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
