// The determinism guard: while workflow code runs, the clock, chance and ids come from the run, and calls that reach the
// outside are refused with the line that made them. Everybody else gets the originals, at the price of one look at the
// async context. Installed while an engine with workflows is open, and taken out again with the last of them.

import childProcess from 'node:child_process'
import nodeCrypto from 'node:crypto'
import dgram from 'node:dgram'
import dns from 'node:dns'
import fs from 'node:fs'
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import timers from 'node:timers'
import timersPromises from 'node:timers/promises'
import tls from 'node:tls'
import workerThreads from 'node:worker_threads'
import { uuidOf } from './bind.ts'
import { guardedDate } from './guard-date.ts'
import { refusal } from './guard-refusal.ts'
import { currentScope } from './scope.ts'

// biome-ignore lint/suspicious/noExplicitAny: functions of any shape are wrapped and passed through.
type Any = any

const restores: (() => void)[] = []
let holders = 0

/** Installs the guard, or shares it; the returned function lets go of it. */
export function installGuard(): () => void {
  holders += 1
  if (holders === 1) install()
  let isHeld = true
  return () => {
    if (!isHeld) return
    isHeld = false
    holders -= 1
    if (holders === 0) uninstall()
  }
}

function install(): void {
  replace(globalThis, 'Date', guardedDate(Date))
  derive(Math, 'random', (scope) => scope.random())
  derive(performance, 'now', (_, original) => (timeOf() === null ? original() : timeOf()))
  derive(nodeCrypto, 'randomUUID', (scope) => uuidOf(scope))
  derive(globalThis.crypto, 'randomUUID', (scope) => uuidOf(scope))
  derive(globalThis.crypto, 'getRandomValues', (_scope, _original, array: Uint8Array) => fill(array))
  derive(nodeCrypto, 'randomBytes', (_scope, _original, size: number, call?: unknown) => {
    if (call) throw refusal('crypto.randomBytes with a callback')
    return fill(Buffer.alloc(size))
  })
  derive(nodeCrypto, 'randomInt', (scope, _original, a: number, b?: number) => {
    const [from, to] = typeof b === 'number' ? [a, b] : [0, a]
    return from + Math.floor(scope.random() * (to - from))
  })
  refuse(globalThis, '', ['setTimeout', 'setInterval', 'setImmediate', 'fetch', 'WebSocket'])
  refuse(timers, 'timers', ['setTimeout', 'setInterval', 'setImmediate'])
  refuse(timersPromises, 'timers/promises', ['setTimeout', 'setInterval', 'setImmediate'])
  refuse(nodeCrypto, 'crypto', ['randomFill', 'randomFillSync', 'generateKeyPair', 'generateKeyPairSync'])
  refuse(fs, 'fs', callsOf(fs))
  refuse(fs.promises, 'fs.promises', callsOf(fs.promises))
  refuse(childProcess, 'child_process', callsOf(childProcess))
  refuse(net, 'net', ['connect', 'createConnection', 'createServer'])
  refuse(tls, 'tls', ['connect', 'createServer'])
  refuse(http, 'http', ['request', 'get', 'createServer'])
  refuse(https, 'https', ['request', 'get', 'createServer'])
  refuse(http2, 'http2', ['connect', 'createServer'])
  refuse(dns, 'dns', ['lookup', 'resolve'])
  refuse(dgram, 'dgram', ['createSocket'])
  refuse(workerThreads, 'worker_threads', ['Worker'])
  syncBuiltinESMExports()
}

function uninstall(): void {
  for (const restore of restores.splice(0).reverse()) restore()
  syncBuiltinESMExports()
}

/** Writing to what is open already (a log) is let through: it cannot change what the code does. */
const harmless = new Set(['write', 'writeSync', 'writev', 'writevSync', 'fsync', 'fsyncSync', 'close', 'closeSync'])

function callsOf(module: object): string[] {
  return Object.keys(module).filter(
    (name) =>
      /^[a-z]/.test(name) &&
      !name.startsWith('_') &&
      !harmless.has(name) &&
      typeof (module as Any)[name] === 'function',
  )
}

function refuse(owner: object, module: string, names: readonly string[]): void {
  for (const name of names) {
    const original = (owner as Any)[name]
    if (typeof original !== 'function') continue
    const call = module === '' ? name : `${module}.${name}`
    const guarded = function (this: unknown, ...args: unknown[]) {
      if (currentScope() !== null) {
        const error = refusal(call)
        if (error) throw error
      }
      return new.target ? Reflect.construct(original, args, new.target) : Reflect.apply(original, this, args)
    }
    replace(owner, name, dress(guarded, original))
  }
}

function derive(
  owner: object,
  name: string,
  value: (scope: NonNullable<ReturnType<typeof currentScope>>, original: () => unknown, ...args: Any[]) => unknown,
): void {
  const original = (owner as Any)[name]
  const guarded = function (this: unknown, ...args: unknown[]) {
    const scope = currentScope()
    return scope === null
      ? Reflect.apply(original, this, args)
      : value(scope, () => Reflect.apply(original, this, args), ...args)
  }
  replace(owner, name, dress(guarded, original))
}

/** Looks like the original to whoever inspects it: name, length, promisified form. */
function dress(guarded: Any, original: Any): Any {
  for (const key of Reflect.ownKeys(original)) {
    const own = Object.getOwnPropertyDescriptor(original, key)!
    if (Object.getOwnPropertyDescriptor(guarded, key)?.configurable === false) {
      if (key === 'prototype') guarded.prototype = original.prototype
    } else Object.defineProperty(guarded, key, { ...own, configurable: true })
  }
  return guarded
}

function replace(owner: object, name: string, value: unknown): void {
  const own = Object.getOwnPropertyDescriptor(owner, name)
  try {
    Object.defineProperty(owner, name, {
      value,
      configurable: true,
      writable: true,
      enumerable: own?.enumerable ?? false,
    })
  } catch {
    // Another tool sealed it: that one call goes unguarded.
    return
  }
  restores.push(() => {
    if (own) Object.defineProperty(owner, name, own)
    else delete (owner as Any)[name]
  })
}

function timeOf(): number | null {
  const scope = currentScope()
  return scope ? (scope.run as { readonly time: number }).time : null
}

function fill<T extends Uint8Array>(array: T): T {
  const scope = currentScope()!
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
  for (let i = 0; i < bytes.length; i++) bytes[i] = Math.floor(scope.random() * 256)
  return array
}
