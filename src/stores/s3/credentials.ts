// Keys for an S3-compatible store, from the usual places; the first that has some wins:
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: a role of a Kubernetes service account, by a call of STS
//   3. ~/.aws/credentials and ~/.aws/config: the keys of the profile
//   4. AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI: the role of a container
//   5. the role of the machine, by the metadata service of EC2 (version 2 only), unless AWS_EC2_METADATA_DISABLED is true
// Keys of a role expire: they are requested again five minutes before that. Single sign-on, credential_process and
// roles that a profile assumes are not supported here; `aws configure export-credentials` turns all of them into 1.

import { readFile } from 'node:fs/promises'
import { RepriseError } from '../../core/errors.ts'
import { readProfile } from './profile.ts'

export interface S3Keys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

interface EndingKeys extends S3Keys {
  /** Milliseconds since 1970. Default: they do not expire. */
  readonly endsAt?: number
  readonly from: string
}

const earlyMs = 300_000
const rolesMs = 5000
const metadataMs = 1000
const metadata = 'http://169.254.169.254/latest'

/** One request serves all concurrent callers. @example const keys = await new Credentials().keys() */
export class Credentials {
  readonly #env: NodeJS.ProcessEnv
  #found: Promise<EndingKeys> | null = null
  #endsAt = Number.POSITIVE_INFINITY

  constructor(env: NodeJS.ProcessEnv = process.env) {
    this.#env = env
  }

  async keys(): Promise<S3Keys> {
    if (Date.now() > this.#endsAt - earlyMs) this.forget()
    this.#found ??= find(this.#env)
    try {
      const keys = await this.#found
      this.#endsAt = keys.endsAt ?? Number.POSITIVE_INFINITY
      return keys
    } catch (error) {
      this.forget()
      throw error
    }
  }

  /** The store has refused the keys: the next caller gets newer ones. */
  forget(): void {
    this.#found = null
    this.#endsAt = Number.POSITIVE_INFINITY
  }
}

async function find(env: NodeJS.ProcessEnv): Promise<EndingKeys> {
  const profile = await readProfile(env)
  const found =
    keysIn(env.AWS_ACCESS_KEY_ID, env.AWS_SECRET_ACCESS_KEY, env.AWS_SESSION_TOKEN, 'the environment') ??
    (await ofWebIdentity(env)) ??
    keysIn(profile.accessKeyId, profile.secretAccessKey, profile.sessionToken, `the profile ${profile.name}`) ??
    (await ofContainer(env)) ??
    (await ofMachine(env))
  if (found) return found
  const what =
    profile.other === undefined
      ? 'no keys for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE'
      : `the profile ${profile.name} gets its keys from ${profile.other}, which Reprise does not read: ` +
        'run eval "$(aws configure export-credentials --format env)" first'
  throw new RepriseError('STORE_DENIED', what, { profile: profile.name })
}

function keysIn(
  accessKeyId: string | undefined,
  secretAccessKey: string | undefined,
  sessionToken: string | undefined,
  from: string,
): EndingKeys | null {
  if (!accessKeyId || !secretAccessKey) return null
  return { accessKeyId, secretAccessKey, from, ...(sessionToken && { sessionToken }) }
}

async function ofWebIdentity(env: NodeJS.ProcessEnv): Promise<EndingKeys | null> {
  const { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role } = env
  if (!file || !role) return null
  const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1'
  const endpoint = env.AWS_ENDPOINT_URL_STS ?? `https://sts.${region}.amazonaws.com`
  const query = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: role,
    RoleSessionName: env.AWS_ROLE_SESSION_NAME ?? 'reprise',
    WebIdentityToken: (await readFile(file, 'utf8')).trim(),
  })
  const text = await ask(`${endpoint}/?${query}`, {}, 'AWS_WEB_IDENTITY_TOKEN_FILE', rolesMs)
  const field = (name: string) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1]
  const keys = keysIn(field('AccessKeyId'), field('SecretAccessKey'), field('SessionToken'), `the role ${role}`)
  return keys && ending(keys, field('Expiration'))
}

async function ofContainer(env: NodeJS.ProcessEnv): Promise<EndingKeys | null> {
  const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
  const url = relative ? `http://169.254.170.2${relative}` : env.AWS_CONTAINER_CREDENTIALS_FULL_URI
  if (!url) return null
  const file = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
  const token = file ? (await readFile(file, 'utf8')).trim() : env.AWS_CONTAINER_AUTHORIZATION_TOKEN
  return fromJson(await ask(url, token ? { authorization: token } : {}, 'the container', rolesMs), 'the container')
}

/** Null if there is no such service: the machine is not an EC2 instance. */
async function ofMachine(env: NodeJS.ProcessEnv): Promise<EndingKeys | null> {
  if (env.AWS_EC2_METADATA_DISABLED?.toLowerCase() === 'true') return null
  const base = env.AWS_EC2_METADATA_SERVICE_ENDPOINT?.replace(/\/+$/, '').concat('/latest') ?? metadata
  try {
    const lifetime = { 'x-aws-ec2-metadata-token-ttl-seconds': '21600' }
    const token = await ask(`${base}/api/token`, lifetime, 'the machine', metadataMs, 'PUT')
    const headers = { 'x-aws-ec2-metadata-token': token }
    const roles = `${base}/meta-data/iam/security-credentials/`
    const role = (await ask(roles, headers, 'the machine', metadataMs)).split('\n')[0]!.trim()
    return fromJson(await ask(roles + role, headers, 'the machine', metadataMs), `the role ${role} of the machine`)
  } catch {
    return null
  }
}

function fromJson(text: string, from: string): EndingKeys | null {
  const given = JSON.parse(text) as Partial<Record<string, string>>
  const keys = keysIn(given.AccessKeyId, given.SecretAccessKey, given.Token, from)
  return keys && ending(keys, given.Expiration)
}

function ending(keys: EndingKeys, at: string | undefined): EndingKeys {
  const endsAt = at === undefined ? Number.NaN : Date.parse(at)
  return Number.isNaN(endsAt) ? keys : { ...keys, endsAt }
}

async function ask(
  url: string,
  headers: Readonly<Record<string, string>>,
  from: string,
  timeoutMs: number,
  method = 'GET',
): Promise<string> {
  try {
    const response = await fetch(url, { method, headers, signal: AbortSignal.timeout(timeoutMs) })
    const text = await response.text()
    if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 200)}`)
    return text
  } catch (cause) {
    throw new RepriseError('STORE_UNREACHABLE', `no keys for the object store from ${from}`, { from }, cause)
  }
}
