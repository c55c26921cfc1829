// How an API server is reached: its address, whom it may trust, and who asks. Given by hand, by the files that a pod finds, or
// by a kubeconfig, which is read by Kubernetes' own client library: it knows its plugins, and renews what they give.

import { readFile } from 'node:fs/promises'
import { RepriseError } from '../../core/errors.ts'

export interface KubernetesAddress {
  /** 'https://10.0.0.1:6443' */
  readonly server: string
  readonly token?: string
  /** Read again for each request: the token of a service account is replaced while it is used. */
  readonly tokenFile?: string
  /** Certificates in PEM: of whoever signs the server's, and of the client with its key. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** Trusts any certificate: for tests only. */
  readonly insecure?: boolean
}

export interface Kubeconfig {
  /** A file; KUBECONFIG or ~/.kube/config if left out. Needs the package @kubernetes/client-node. */
  readonly kubeconfig?: string
  readonly context?: string
}

/** What a request is made with. */
export interface Credentials {
  readonly server: URL
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Readonly<Record<string, unknown>>
}

export type Connect = () => Promise<Credentials>

const inPod = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Undefined: as a pod finds it, or by the usual kubeconfig outside of one. */
export function connectTo(given: string | KubernetesAddress | Kubeconfig | undefined): Connect {
  if (typeof given === 'string') return byKubeconfig({ kubeconfig: given })
  if (given && 'server' in given) return byHand(given)
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = process.env
  if (given || !host) return byKubeconfig(given ?? {})
  const shown = host.includes(':') ? `[${host}]` : host
  return async () => {
    const ca = await readFile(`${inPod}/ca.crt`, 'utf8')
    return await byHand({ server: `https://${shown}:${port}`, ca, tokenFile: `${inPod}/token` })()
  }
}

function byHand(address: KubernetesAddress): Connect {
  const { server, token, tokenFile, ca, cert, key, insecure = false } = address
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      `kubernetes: server must be an address with http or https (got ${server})`,
    )
  }
  return async () => {
    const bearer = tokenFile === undefined ? token : (await readFile(tokenFile, 'utf8')).trim()
    return {
      server: new URL(server),
      headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
      tls: { ca, cert, key, ...(insecure && { rejectUnauthorized: false }) },
    }
  }
}

function byKubeconfig({ kubeconfig, context }: Kubeconfig): Connect {
  let loading: ReturnType<typeof load> | null = null
  return async () => {
    loading ??= load(kubeconfig, context)
    const config = await loading
    const server = config.getCurrentCluster()?.server
    if (server === undefined) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        `kubernetes: ${kubeconfig ?? 'the kubeconfig'} names no cluster to use`,
      )
    }
    const made: Record<string, unknown> = {}
    await config.applyToHTTPSOptions(made)
    const { ca, cert, key, servername, rejectUnauthorized } = made
    const basic = typeof made.auth === 'string' && `Basic ${Buffer.from(made.auth).toString('base64')}`
    return {
      server: new URL(server),
      headers: { ...(made.headers as Record<string, string>), ...(basic && { authorization: basic }) },
      tls: { ca, cert, key, servername, ...(rejectUnauthorized !== undefined && { rejectUnauthorized }) },
    }
  }
}

async function load(file: string | undefined, context: string | undefined) {
  const { KubeConfig } = await import('@kubernetes/client-node').catch((error: unknown) => {
    const what = 'a kubeconfig is read by a package that is not here: npm install @kubernetes/client-node'
    throw new RepriseError('DRIVER_MISSING', what, { packages: ['@kubernetes/client-node'] }, error)
  })
  const config = new KubeConfig()
  if (file === undefined) config.loadFromDefault()
  else config.loadFromFile(file)
  if (context !== undefined) config.setCurrentContext(context)
  return config
}
