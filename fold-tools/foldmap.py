MOVES={}
def room(name, names, rename={}):
    for n in names.split():
        MOVES[n]=name+'/'+rename.get(n, n.split('/')[-1])
room('process','backoff clock connection fail_points leader lock log mutants pulse step_error stop')
room('observe','definitions freshness kinds node node_claim offers overlays plan_index planned_pods pod_latency protection server_pods state strip_managed_fields unavailable_offerings watch fuzz')
room('journal','bug_report')
room('decide','claims round round_input round_timer rollout disruption/decide disruption/staying disruption/waves disruption/command journal/fixture',{'disruption/decide':'disruption'})
room('metrics','disruption/metrics repair/reboot/metrics',{'disruption/metrics':'disruption','repair/reboot/metrics':'reboots'})
room('act','context events work_queue guard instrumented cloud recent pod_events pools claim_conditions claim_writes overlays/status disruption repair',{'overlays/status':'overlay_status'})
room('act/launch','create_claims launch_request launch_groups launch_backoff launches lifecycle node_capacity refusals useless_purchases static_pools')
room('act/end','termination drains finalize proof garbage shared_list')
room('serve','serve explain_requests gauges reference',{'serve':'http'})
room('run','environment deploy_tests')
MOVES['settings']='^settings'
MOVES['act_end_dummy']=MOVES.pop('act_end_dummy','x') if False else 'x'
del MOVES['act_end_dummy']
TOP=['act','decide','observe','process','serve']
ROOM_VIS={'process':'pub ','observe':'pub ','decide':'pub ','act':'pub(crate) '}
ROOMS={
'serve':'''//! What can be seen from outside: metrics, status, explanations.
''',
'process':'''//! What every room stands on: who leads, what time it is, the connection, and how the process ends.
''',
'observe':'''//! What is there: watches, the state that they are folded into, and what can be bought.
''',
'decide':'''//! What should change: rounds of planning, looks for disruption, and the order of registrations.
''',
'act':'''//! How decisions become objects and instances, and how these end.
''',
'act/launch':'''//! From a plan to a node: NodeClaims, launches, registration.
''',
'act/end':'''//! The end of a node: drain, proof, instance, garbage.
''',
}
