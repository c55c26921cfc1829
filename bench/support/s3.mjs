// A real S3-compatible server for benches: $S3_ENDPOINT if it is set, else versitygw or moto_server from the PATH.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { S3Client } from '../../dist/stores/s3/client.js'
import { locate } from '../../dist/stores/s3/location.js'

const keys = { AWS_ACCESS_KEY_ID: 'reprisebench', AWS_SECRET_ACCESS_KEY: 'reprisebenchsecret', AWS_REGION: 'us-east-1' }

/** A new bucket: { kind, url, close }. Null: no server is available. */
export async function benchS3(place) {
  const server = await start(place)
  if (!server) return null
  const url = `s3://reprise-bench-${process.pid}-${Date.now().toString(36)}?endpoint=${server.endpoint}`
  await (await clientOf(url)).send({ method: 'PUT', key: '', what: 'make the bucket' })
  return { ...server, url }
}

export async function clientOf(url) {
  return await S3Client.open(await locate(url))
}

async function start(place) {
  if (process.env.S3_ENDPOINT) return { kind: 'S3_ENDPOINT', endpoint: process.env.S3_ENDPOINT, close: async () => {} }
  Object.assign(process.env, keys)
  const has = (name) => spawnSync(name, ['--help'], { stdio: 'ignore' }).status === 0
  const port = await freePort()
  const kind = has('versitygw') ? 'versitygw' : has('moto_server') ? 'moto' : null
  if (kind === null) return null
  mkdirSync(place.path('s3'), { recursive: true })
  const env = { ...process.env, ROOT_ACCESS_KEY: keys.AWS_ACCESS_KEY_ID, ROOT_SECRET_KEY: keys.AWS_SECRET_ACCESS_KEY }
  const child =
    kind === 'moto'
      ? spawn('moto_server', ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
      : spawn('versitygw', ['--port', `127.0.0.1:${port}`, '--quiet', 'posix', place.path('s3')], {
          stdio: 'ignore',
          env,
        })
  const endpoint = `http://127.0.0.1:${port}`
  for (let left = 300; left > 0; left--) {
    if (child.exitCode !== null) throw new Error(`${kind} ended with ${child.exitCode}`)
    const isThere = await fetch(endpoint).then(
      () => true,
      () => false,
    )
    if (isThere) break
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const close = async () => {
    child.kill('SIGKILL')
    await new Promise((resolve) => void child.once('exit', resolve))
  }
  return { kind, endpoint, close }
}

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => void server.close(resolve))
  return port
}
