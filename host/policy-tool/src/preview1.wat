;; Answers what Go's runtime asks of WASI preview 1, with constants: a policy has no clock, files or randomness.
;; Merged into the component, so that nothing of WASI is imported.
(module
  (import "env" "memory" (memory 0))

  ;; The time is always the same moment of 2023: the runtime does not start at 0.
  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $to i32) (result i32)
    (i64.store (local.get $to) (i64.const 1700000000000000000))
    (i32.const 0))
  (func (export "adapter_monotonic_clock_set_paused") (param i32))
  (func (export "sched_yield") (result i32) (i32.const 0))
  (func (export "proc_exit") (param i32) (unreachable))

  ;; Chance is always the same too; it seeds hash maps.
  (func (export "random_get") (param $to i32) (param $len i32) (result i32)
    (memory.fill (local.get $to) (i32.const 42) (local.get $len))
    (i32.const 0))

  ;; No arguments, no environment.
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "args_sizes_get") (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $size) (i32.const 0))
    (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $size) (i32.const 0))
    (i32.const 0))

  ;; Nothing ever happens.
  (func (export "poll_oneoff") (param i32 i32 i32) (param $events i32) (result i32)
    (i32.store (local.get $events) (i32.const 0))
    (i32.const 0))

  ;; Files: nothing to read, no folders (8 is EBADF), and what is written is taken and forgotten.
  (func (export "fd_close") (param i32) (result i32) (i32.const 0))
  (func (export "fd_read") (param i32 i32 i32) (param $read i32) (result i32)
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))
  (func (export "fd_write") (param $fd i32) (param $parts i32) (param $count i32) (param $written i32) (result i32)
    (local $sum i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $count)))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $parts))))
        (local.set $parts (i32.add (local.get $parts) (i32.const 8)))
        (local.set $count (i32.sub (local.get $count) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))
  (func (export "fd_fdstat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8)))
