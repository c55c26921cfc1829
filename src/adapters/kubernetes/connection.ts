// How to reach an API server: its address, its trusted certificates, and the client's identity. Configured explicitly, by the
// files of a pod, or by a kubeconfig (kubeconfig.ts).

import { RepriseError } from '../../core/errors.ts'
import { type Connect, readSecret } from './credentials.ts'
import { byKubeconfig, type Kubeconfig } from './kubeconfig.ts'

export interface KubernetesAddress {
  /** 'https://10.0.0.1:6443' */
  readonly server: string
  readonly token?: string
  /** Read again for each request: the token of a service account is rotated while it is in use. */
  readonly tokenFile?: string
  /** Certificates in PEM: of the authority that signed the server's, and of the client with its key. */
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** Trusts any certificate: for tests only. */
  readonly insecure?: boolean
}

/** Where a process finds settings that were not passed. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv
  /** The directory of a pod's service account. */
  readonly account: string
}

const here: Surroundings = { env: process.env, account: '/var/run/secrets/kubernetes.io/serviceaccount' }

/** Undefined: the pod's service account, or the default kubeconfig outside of a pod. */
export function connectTo(
  given: string | KubernetesAddress | Kubeconfig | undefined,
  { env, account }: Surroundings = here,
): Connect {
  if (typeof given === 'string') return byKubeconfig({ kubeconfig: given }, env)
  if (given && 'server' in given) return byHand(given)
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env
  if (given || !host) return byKubeconfig(given ?? {}, env)
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
  return async () => {
    const ca = await readSecret('the files of a pod', `${account}/ca.crt`)
    return await byHand({ server, ca, tokenFile: `${account}/token` })()
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
    const bearer = tokenFile === undefined ? token : await readSecret('the token', tokenFile)
    return {
      server: new URL(server),
      headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
      tls: { ca, cert, key, ...(insecure && { rejectUnauthorized: false }) },
    }
  }
}
