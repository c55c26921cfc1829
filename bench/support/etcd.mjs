// An etcd server for a bench, if it is installed, and the few calls of its JSON gateway that are measured. Its native clients
// use gRPC and are faster; programs without such a client use the gateway.

import { spawn, spawnSync } from 'node:child_process'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { temporaryFolder } from './stores.mjs'

/** Null: there is no etcd on this machine. */
export async function startEtcd() {
  if (spawnSync('etcd', ['--version']).status !== 0) return null
  const place = temporaryFolder()
  const [client, peer] = await Promise.all([freePort(), freePort()])
  const url = (port) => `http://127.0.0.1:${port}`
  const child = spawn(
    'etcd',
    [
      ...['--data-dir', place.path('etcd'), '--log-level', 'error', '--initial-cluster', `default=${url(peer)}`],
      ...['--listen-client-urls', url(client), '--advertise-client-urls', url(client)],
      ...['--listen-peer-urls', url(peer), '--initial-advertise-peer-urls', url(peer)],
    ],
    { stdio: 'ignore' },
  )
  const agent = new Agent({ keepAlive: true, maxSockets: 256 })
  const call = (path, body) => post(client, agent, path, body)
  for (let tries = 0; ; tries++) {
    const isUp = await call('/v3/kv/range', { key: text('a') }).then(
      () => true,
      () => false,
    )
    if (isUp) break
    if (tries > 200) throw new Error('etcd does not answer')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    put: (key, value) => call('/v3/kv/put', { key: text(key), value: text(value) }),
    /** Calls for each batch of events with their number; resolves once it watches. Ends with `close`. */
    watch: (prefix, told) => watch(client, prefix, told),
    async stop() {
      agent.destroy()
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
      place.remove()
    },
  }
}

function post(port, agent, path, body) {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method: 'POST', agent }, (answer) => {
      let said = ''
      answer.setEncoding('utf8')
      answer.on('data', (part) => {
        said += part
      })
      answer.on('end', () => (answer.statusCode === 200 ? resolve(said) : reject(new Error(said))))
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

function watch(port, prefix, told) {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path: '/v3/watch', method: 'POST' }, (answer) => {
      let rest = ''
      answer.setEncoding('utf8')
      answer.on('data', (part) => {
        const lines = (rest + part).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          const { result } = JSON.parse(line)
          if (result.created) resolve({ close: () => sent.destroy() })
          else told(result.events?.length ?? 0)
        }
      })
    })
    sent.on('error', reject)
    const end = `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`
    sent.end(JSON.stringify({ create_request: { key: text(prefix), range_end: text(end) } }))
  })
}

const text = (value) => Buffer.from(value).toString('base64')

function freePort() {
  return new Promise((resolve) => {
    const server = createServer()
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}
