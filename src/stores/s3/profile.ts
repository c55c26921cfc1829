// The files of the AWS command line: ~/.aws/credentials and ~/.aws/config, for the profile in AWS_PROFILE. Only keys,
// region and endpoint are read from them: unsupported sources (sso, credential_process, role_arn) are named in the
// refusal (credentials.ts).

import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

export interface AwsProfile {
  readonly name: string
  readonly accessKeyId?: string
  readonly secretAccessKey?: string
  readonly sessionToken?: string
  readonly region?: string
  readonly endpoint?: string
  /** Another source of keys that the profile names, which is not supported here. */
  readonly other?: string
}

const others = ['sso_session', 'sso_start_url', 'credential_process', 'role_arn']

export async function readProfile(env: NodeJS.ProcessEnv = process.env): Promise<AwsProfile> {
  const name = env.AWS_PROFILE || env.AWS_DEFAULT_PROFILE || 'default'
  const folder = join(env.HOME || env.USERPROFILE || homedir(), '.aws')
  const keys = sectionOf(await textOf(env.AWS_SHARED_CREDENTIALS_FILE || join(folder, 'credentials')), [name])
  const config = sectionOf(await textOf(env.AWS_CONFIG_FILE || join(folder, 'config')), [`profile ${name}`, name])
  const all = new Map([...config, ...keys])
  const field = (key: string, as: keyof AwsProfile) => (all.get(key) ? { [as]: all.get(key) } : {})
  return {
    name,
    ...field('aws_access_key_id', 'accessKeyId'),
    ...field('aws_secret_access_key', 'secretAccessKey'),
    ...field('aws_session_token', 'sessionToken'),
    ...field('region', 'region'),
    ...field('endpoint_url', 'endpoint'),
    ...(others.some((each) => all.has(each)) && { other: others.find((each) => all.has(each))! }),
  }
}

/** The lines of the first section with one of these names. Indented lines belong to a nested table and are skipped. */
function sectionOf(text: string, names: readonly string[]): Map<string, string> {
  const found = new Map<string, string>()
  let isOurs = false
  for (const line of text.split(/\r?\n/)) {
    const section = /^\[\s*(.+?)\s*\]/.exec(line)?.[1]
    if (section !== undefined) isOurs = names.includes(section.replace(/\s+/g, ' '))
    const [, key, value] = /^([a-z_0-9]+)\s*=\s*(.*?)\s*$/i.exec(line) ?? []
    if (isOurs && key !== undefined && !found.has(key.toLowerCase())) found.set(key.toLowerCase(), value!)
  }
  return found
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch(() => '')
}
