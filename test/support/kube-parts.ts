// A real API server of Kubernetes over a real etcd, for tests: REPRISE_TEST_KUBE_APISERVER and REPRISE_TEST_ETCD name their
// programs. Without them, the reason is printed and the tests that need them are skipped.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ApiClient } from '../../src/adapters/kubernetes/api-client.ts'
import { connectTo, type KubernetesAddress } from '../../src/adapters/kubernetes/connection.ts'
import { freePort, started } from './parts.ts'

export const kubeMissing = whyMissing()
if (kubeMissing !== null) console.log(`skipped: nothing runs against a real kube-apiserver: ${kubeMissing}`)

function whyMissing(): string | null {
  for (const name of ['REPRISE_TEST_KUBE_APISERVER', 'REPRISE_TEST_ETCD']) {
    const path = process.env[name]
    if (path === undefined) return `${name} names none`
    if (!existsSync(path)) return `${name}: there is no ${path}`
  }
  return spawnSync('openssl', ['version']).status === 0 ? null : 'there is no openssl'
}

export interface Cluster {
  readonly address: KubernetesAddress
  /** As if its machine had lost power; etcd runs on. */
  kill(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

const token = 'a-token-for-tests'

export async function startCluster(): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-kube-'))
  const at = (name: string) => join(folder, name)
  spawnSync('openssl', ['genrsa', '-out', at('sa.key'), '2048'])
  spawnSync('openssl', ['rsa', '-in', at('sa.key'), '-pubout', '-out', at('sa.pub')])
  writeFileSync(at('tokens.csv'), `${token},admin,1,"system:masters"\n`)
  const [client, peer, port] = [await freePort(), await freePort(), await freePort()]
  const etcdUrl = `http://127.0.0.1:${client}`
  const etcdArgs = ['--data-dir', at('etcd'), '--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl]
  const peerUrl = `http://127.0.0.1:${peer}`
  const peerArgs = ['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl]
  const cluster = ['--initial-cluster', `default=${peerUrl}`, '--log-level', 'error']
  const etcdChild = spawn(process.env.REPRISE_TEST_ETCD!, [...etcdArgs, ...peerArgs, ...cluster], { stdio: 'ignore' })
  const etcd = await started(etcdChild, client, folder)
  const args = [
    `--etcd-servers=${etcdUrl}`,
    ...[
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${at('certs')}`,
    ],
    ...['--service-account-issuer=https://x', `--service-account-key-file=${at('sa.pub')}`],
    ...[`--service-account-signing-key-file=${at('sa.key')}`, '--service-cluster-ip-range=10.0.0.0/24'],
    ...[
      '--authorization-mode=RBAC',
      `--token-auth-file=${at('tokens.csv')}`,
      '--disable-admission-plugins=ServiceAccount',
    ],
  ]
  const address: KubernetesAddress = { server: `https://127.0.0.1:${port}`, token, insecure: true }
  let api: Awaited<ReturnType<typeof started>> | null = null
  const start = async () => {
    const child = spawn(process.env.REPRISE_TEST_KUBE_APISERVER!, args, { stdio: 'ignore' })
    api = await started(child, port, folder)
    while (!(await isReady(address))) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await start()
  const kill = async () => {
    await api?.kill()
  }
  const stop = async () => {
    await kill()
    await etcd.kill()
    rmSync(folder, { recursive: true, force: true })
  }
  return { address, kill, start, stop }
}

async function isReady(address: KubernetesAddress): Promise<boolean> {
  const client = new ApiClient(connectTo(address))
  const path = '/api/v1/namespaces/default'
  return await client.ask({ method: 'GET', path, about: {} }).then(
    () => true,
    () => false,
  )
}

/** Custom kinds, each with a status of its own. Resolves when objects of them can be made. */
export async function defineKinds(
  address: KubernetesAddress,
  kinds: readonly { kind: string; plural: string; namespaced: boolean }[],
  group: string,
): Promise<void> {
  const client = new ApiClient(connectTo(address))
  for (const { kind, plural, namespaced } of kinds) {
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } }
    const body = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.${group}` },
      spec: {
        group,
        scope: namespaced ? 'Namespaced' : 'Cluster',
        names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [{ name: 'v1', served: true, storage: true, schema, subresources: { status: {} } }],
      },
    }
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    await client.ask({ method: 'POST', path, body, about: {} })
  }
  await untilServed(address, kinds, group)
}

/** Until then it is not ready. */
export async function untilServed(
  address: KubernetesAddress,
  kinds: readonly { readonly plural: string }[],
  group: string,
): Promise<void> {
  const client = new ApiClient(connectTo(address))
  const isServed = (path: string) =>
    client.ask({ method: 'GET', path, about: {} }).then(
      () => true,
      () => false,
    )
  for (const { plural } of kinds) {
    while (!(await isServed(`/apis/${group}/v1/${plural}`))) await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
