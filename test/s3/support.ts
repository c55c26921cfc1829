// A real S3-compatible server, and a proxy of ours in front of it that does everything a network and a server in trouble do.
// The server: $S3_ENDPOINT if it is set, else versitygw or moto_server from the PATH, started here.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server, request as send } from 'node:http'
import { type AddressInfo, createServer as createSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { S3Client } from '../../src/stores/s3/client.ts'
import { locate } from '../../src/stores/s3/location.ts'
import { until } from '../support/until.ts'

export interface S3Server {
  readonly kind: string
  readonly endpoint: string
  close(): Promise<void>
}

const keys = { AWS_ACCESS_KEY_ID: 'reprisetest', AWS_SECRET_ACCESS_KEY: 'reprisetestsecret', AWS_REGION: 'us-east-1' }

/** The environment variables with which a process gets access. */
export const s3Env: NodeJS.ProcessEnv = process.env.S3_ENDPOINT ? {} : keys

/** Null, with the reason printed: there is none to be had. */
export async function startS3(): Promise<S3Server | null> {
  Object.assign(process.env, s3Env)
  if (process.env.S3_ENDPOINT)
    return { kind: 'S3_ENDPOINT', endpoint: process.env.S3_ENDPOINT, close: async () => undefined }
  const folder = mkdtempSync(join(tmpdir(), 'reprise-s3-'))
  const port = await freePort()
  const isThere = (name: string) => spawnSync(name, ['--help'], { stdio: 'ignore' }).status === 0
  const started = isThere('versitygw') ? startVersity(folder, port) : isThere('moto_server') ? startMoto(port) : null
  if (!started) {
    rmSync(folder, { recursive: true })
    console.log('no S3-compatible server: set S3_ENDPOINT, or install versitygw (go) or moto[server,s3] (pip)')
    return null
  }
  const endpoint = `http://127.0.0.1:${port}`
  await until(async () => {
    if (started.child.exitCode !== null) throw new Error(`${started.kind} ended with ${started.child.exitCode}`)
    return await fetch(endpoint).then(
      () => true,
      () => false,
    )
  })
  return {
    kind: started.kind,
    endpoint,
    async close() {
      started.child.kill('SIGKILL')
      await new Promise((resolve) => void started.child.once('exit', resolve))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

interface Started {
  readonly kind: string
  readonly child: ChildProcess
}

function startVersity(folder: string, port: number): Started {
  mkdirSync(join(folder, 'data'))
  const env = { ...process.env, ROOT_ACCESS_KEY: keys.AWS_ACCESS_KEY_ID, ROOT_SECRET_KEY: keys.AWS_SECRET_ACCESS_KEY }
  const args = ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', join(folder, 'data')]
  return { kind: 'versitygw', child: spawn('versitygw', args, { stdio: 'ignore', env }) }
}

function startMoto(port: number): Started {
  return { kind: 'moto', child: spawn('moto_server', ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' }) }
}

async function freePort(): Promise<number> {
  const server = createSocket()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => void server.close(resolve))
  return port
}

let buckets = 0

/** The address of a new bucket. */
export async function newBucket(endpoint: string): Promise<string> {
  const name = `reprise-${process.pid}-${Date.now().toString(36)}-${++buckets}`
  const url = `s3://${name}?endpoint=${endpoint}`
  const client = await S3Client.open(await locate(url))
  await client.send({ method: 'PUT', key: '', what: 'make the bucket' })
  return url
}

/**
 * `refuse`: the connection ends before anything is done. `lost`: it is done, and the connection ends without an answer.
 * `torn`: the answer ends in the middle. A number: that status is answered, and nothing is done. `slow`: the answer begins
 * after 2 seconds. `hang`: nothing is answered, and nothing is done.
 */
export type NetworkFault = 'pass' | 'refuse' | 'lost' | 'torn' | 'slow' | 'hang' | 403 | 409 | 500 | 501 | 503

export interface FaultyProxy {
  readonly endpoint: string
  /** Called for each request, with its number from 1. */
  fault: (request: { readonly method: string; readonly path: string; readonly number: number }) => NetworkFault
  readonly requests: string[]
  /** Requests that wait for an answer that does not come. */
  readonly hanging: number
  close(): Promise<void>
}

export async function startProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target)
  const proxy = { requests: [] as string[], hanging: 0, fault: () => 'pass' } as unknown as {
    -readonly [K in keyof FaultyProxy]: FaultyProxy[K]
  }
  const server: Server = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming
    proxy.requests.push(`${method} ${url}`)
    const fault = proxy.fault({ method, path: url, number: proxy.requests.length })
    if (fault === 'refuse') return void incoming.socket.destroy()
    if (fault === 'hang') {
      proxy.hanging += 1
      outgoing.once('close', () => {
        proxy.hanging -= 1
      })
      return void incoming.resume()
    }
    if (typeof fault === 'number') {
      incoming.resume()
      incoming.on('end', () => {
        outgoing.writeHead(fault, { 'content-type': 'application/xml' })
        const code = fault === 503 ? 'SlowDown' : fault === 403 ? 'AccessDenied' : 'Planted'
        outgoing.end(`<Error><Code>${code}</Code><Message>planted</Message></Error>`)
      })
      return
    }
    // The signature covers the host.
    const forwarded = send({ hostname, port, method, path: url, headers }, (answer) => {
      if (fault === 'lost') {
        answer.resume()
        answer.on('end', () => incoming.socket.destroy())
        return
      }
      const pieces: Buffer[] = []
      answer.on('data', (piece: Buffer) => void pieces.push(piece))
      answer.on('end', () => {
        const body = Buffer.concat(pieces)
        const begin = () => {
          const length = method === 'HEAD' ? {} : { 'content-length': body.length }
          outgoing.writeHead(answer.statusCode ?? 500, { ...answer.headers, ...length })
          if (fault !== 'torn' || body.length < 2) return void outgoing.end(body)
          outgoing.write(body.subarray(0, body.length / 2), () => incoming.socket.destroy())
        }
        if (fault === 'slow') setTimeout(begin, 2000)
        else begin()
      })
    })
    forwarded.on('error', () => incoming.socket.destroy())
    incoming.pipe(forwarded)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  proxy.endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  proxy.close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => void server.close(resolve))
  }
  return proxy
}
