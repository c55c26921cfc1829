// The outside as code in a zone sees it: timers, files, processes, sockets, DNS, the machine. Every call is refused,
// with the user's line. Where only folds are guarded, modules that are not loaded stay untouched: a synchronous fold
// cannot use a module that it has not imported.

import { type Any, callsOf, dress, refuse, replace } from './patch.ts'
import { refusal } from './refusal.ts'
import { zoneNow } from './zone.ts'

const guarded = new Set<string>()

/** Guards the loaded modules, or all modules, skipping those already guarded. Returns true if any was newly guarded. */
export function guardModules(isAll: boolean): boolean {
  const before = guarded.size
  const loaded = new Set((process as Any).moduleLoadList as readonly string[] | undefined)
  for (const [name, guard] of Object.entries(modules)) {
    if (guarded.has(name) || !(isAll || cheap.has(name) || loaded.has(`NativeModule ${name}`))) continue
    guarded.add(name)
    guard(process.getBuiltinModule(`node:${name}`))
  }
  // Loading node:sqlite prints a warning and may fail; only code that has loaded it already can use it.
  if (!guarded.has('sqlite') && loaded.has('NativeModule sqlite')) {
    guarded.add('sqlite')
    const { DatabaseSync, StatementSync }: Any = process.getBuiltinModule('node:sqlite')
    refuse(DatabaseSync?.prototype, 'sqlite', callsOf(DatabaseSync?.prototype))
    refuse(StatementSync?.prototype, 'sqlite', callsOf(StatementSync?.prototype))
  }
  return guarded.size > before
}

export function forgetModules(): void {
  guarded.clear()
}

/** Loaded in every process. */
const cheap = new Set(['fs', 'timers', 'timers/promises', 'os', 'vm', 'v8'])

/** Writes to an open file (a log) are allowed: they cannot change the result of the code. */
const harmless = new Set(['write', 'writeSync', 'writev', 'writevSync', 'fsync', 'fsyncSync', 'close', 'closeSync'])

const timers = ['setTimeout', 'setInterval', 'setImmediate']
const ports = ['MessageChannel', 'BroadcastChannel']

export function guardGlobals(): void {
  const all: Any = globalThis
  refuse(all, '', [...timers, 'fetch', 'WebSocket', 'EventSource', ...ports])
  refuse(AbortSignal, 'AbortSignal', ['timeout'])
  refuse(WeakRef.prototype, 'WeakRef', ['deref'])
  refuse(FinalizationRegistry.prototype, 'FinalizationRegistry', ['register'])
  refuse(Atomics, 'Atomics', ['wait', 'waitAsync'])
  refuse(process, 'process', machine)
  refuse(process.report, 'process.report', ['getReport', 'writeReport'])
}

const machine = [
  'memoryUsage',
  'cpuUsage',
  'threadCpuUsage',
  'resourceUsage',
  'availableMemory',
  'constrainedMemory',
  'getActiveResourcesInfo',
]

const modules: Readonly<Record<string, (module: Any) => void>> = {
  timers: (module) => refuse(module, 'timers', timers),
  'timers/promises': (module) => {
    refuse(module, 'timers/promises', timers)
    const scheduler = module.scheduler && Object.getPrototypeOf(module.scheduler)
    refuse(scheduler, 'timers/promises.scheduler', ['wait', 'yield'])
  },
  fs: (module) => {
    refuse(module, 'fs', callsOf(module, harmless))
    refuse(module.promises, 'fs.promises', callsOf(module.promises))
  },
  os: (module) => refuse(module, 'os', callsOf(module)),
  v8: (module) => refuse(module, 'v8', heap),
  vm: (module) => {
    // Another realm has its own clock and randomness.
    refuse(module, 'vm', ['createContext', 'runInContext', 'runInNewContext'])
    refuse(module.Script?.prototype, 'vm.Script', ['runInContext', 'runInNewContext'])
  },
  child_process: (module) => {
    refuse(module, 'child_process', callsOf(module))
    refuse(module.ChildProcess?.prototype, 'child_process.ChildProcess', ['spawn'])
  },
  cluster: (module) => refuse(module, 'cluster', ['fork']),
  worker_threads: (module) => refuse(module, 'worker_threads', ['Worker', 'receiveMessageOnPort', ...ports]),
  dns: (module) => {
    for (const [owner, name] of [
      [module, 'dns'],
      [module.promises, 'dns.promises'],
    ]) {
      refuse(owner, name, callsOf(owner))
      refuse(owner.Resolver?.prototype, `${name}.Resolver`, callsOf(owner.Resolver?.prototype))
    }
  },
  dgram: (module) => {
    refuse(module, 'dgram', ['createSocket'])
    refuse(module.Socket?.prototype, 'dgram.Socket', ['bind', 'connect'])
  },
  net: (module) => {
    refuse(module, 'net', ['connect', 'createConnection', 'createServer'])
    refuse(module.Server?.prototype, 'net.Server', ['listen'])
    guardSockets(module.Socket.prototype)
  },
  tls: (module) => refuse(module, 'tls', ['connect', 'createServer']),
  http: (module) => refuse(module, 'http', ['request', 'get', 'createServer']),
  https: (module) => refuse(module, 'https', ['request', 'get', 'createServer']),
  http2: (module) => refuse(module, 'http2', ['connect', 'createServer', 'createSecureServer']),
}

const heap = [
  'getHeapStatistics',
  'getHeapSpaceStatistics',
  'getHeapCodeStatistics',
  'getHeapSnapshot',
  'writeHeapSnapshot',
  'queryObjects',
  'takeCoverage',
]

/**
 * Every database client ends here, regardless of its name. Its sockets are shared with other code and must not get stuck in
 * the middle of an exchange, so the guard throws nothing into them: a new connection fails like a failed connection, a
 * write to an open connection succeeds, and the zone is blamed. Standard output and error are logs and are allowed.
 */
function guardSockets(sockets: Any): void {
  const { connect } = sockets
  const guardedConnect = function (this: Any, ...args: unknown[]) {
    const error = blamed('net.Socket.connect')
    if (!error) return Reflect.apply(connect, this, args)
    this.once('error', () => undefined)
    return this.destroy(error)
  }
  replace(sockets, 'connect', dress(guardedConnect, connect))
  for (const name of ['write', 'end']) {
    const original = sockets[name]
    const guardedWrite = function (this: Any, ...args: unknown[]) {
      if (this.fd !== 1 && this.fd !== 2 && (name === 'write' || args.length > 0)) blamed(`net.Socket.${name}`)
      return Reflect.apply(original, this, args)
    }
    replace(sockets, name, dress(guardedWrite, original))
  }
}

function blamed(call: string): Error | null {
  const zone = zoneNow()
  const error = zone && refusal(zone, call)
  if (error) zone.blame(error)
  return error
}
