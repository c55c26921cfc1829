// An address in an S3-compatible store: s3://bucket/prefix, with a query for values that the environment does not set:
// s3://bucket/prefix?endpoint=http://127.0.0.1:9000&region=eu-west-1. It never contains keys: addresses are logged.

import { RepriseError } from '../../core/errors.ts'
import { type AwsProfile, readProfile } from './profile.ts'

export interface S3Location {
  readonly bucket: string
  /** Without a slash at its ends; '' if there is no prefix. */
  readonly prefix: string
  /** Without a trailing slash, and with the bucket in it. */
  readonly base: string
  readonly region: string
  /** For display: the address without its query. */
  readonly name: string
}

const known = new Set(['endpoint', 'region'])

/** @example locate('s3://backups/app?endpoint=http://127.0.0.1:9000') */
export async function locate(url: string, env: NodeJS.ProcessEnv = process.env): Promise<S3Location> {
  const { bucket, prefix, query } = parse(url)
  const profile = await readProfile(env)
  const region = query.get('region') ?? env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? profile.region ?? 'us-east-1'
  return {
    bucket,
    prefix,
    region,
    base: baseOf(bucket, region, query.get('endpoint') ?? endpointOf(env, profile)),
    name: `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`,
  }
}

/** Throws INVALID_ARGUMENT. The same address with something below it: joinUrl('s3://b/p?region=x', 'packs'). */
export function joinUrl(url: string, below: string): string {
  const { bucket, prefix, query } = parse(url)
  const path = [prefix, below].filter((each) => each !== '').join('/')
  return `s3://${bucket}/${path}${query.size > 0 ? `?${query}` : ''}`
}

function parse(url: string): { readonly bucket: string; readonly prefix: string; readonly query: URLSearchParams } {
  const [, bucket = '', path = '', search = ''] = /^s3:\/\/([^/?]*)([^?]*)(?:\?(.*))?$/i.exec(url) ?? []
  if (bucket.includes('@')) {
    throw wrong('an s3 address must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY')
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw wrong(`an s3 address must be s3://bucket/prefix (got ${url.slice(0, 80)})`)
  }
  const query = new URLSearchParams(search)
  for (const name of query.keys()) {
    if (!known.has(name)) throw wrong(`an s3 address accepts endpoint and region (got ${name.slice(0, 40)})`)
  }
  const prefix = path.replace(/^\/+|\/+$/g, '')
  if (!/^[\w.!*'()/ -]*$/.test(prefix) || prefix.split('/').some((part) => part === '.' || part === '..')) {
    throw wrong(
      `a prefix must consist of letters, digits, spaces and any of ! - _ . * ' ( ) / (got ${prefix.slice(0, 80)})`,
    )
  }
  return { bucket, prefix, query }
}

function endpointOf(env: NodeJS.ProcessEnv, profile: AwsProfile): string | undefined {
  return env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || profile.endpoint
}

/**
 * Amazon's own endpoint has the bucket in the host name, unless a dot in it would break the certificate; others in the
 * path.
 */
function baseOf(bucket: string, region: string, endpoint: string | undefined): string {
  if (endpoint !== undefined) {
    const given = URL.canParse(endpoint) ? new URL(endpoint) : null
    if (!given || !/^https?:$/.test(given.protocol) || given.username !== '') {
      throw wrong(`the endpoint must be an http or https address without keys (got ${endpoint.slice(0, 80)})`)
    }
    return `${given.origin}${given.pathname.replace(/\/+$/, '')}/${bucket}`
  }
  if (!/^[a-z0-9-]{1,40}$/.test(region))
    throw wrong(`region must be a name such as eu-west-1 (got ${region.slice(0, 40)})`)
  const host = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
  return bucket.includes('.') ? `https://${host}/${bucket}` : `https://${bucket}.${host}`
}

function wrong(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}
