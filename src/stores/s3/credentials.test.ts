import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../../test/support/fixture.ts'
import { Credentials } from './credentials.ts'
import { joinUrl, locate } from './location.ts'

let home: string
let server: Server
let base: string
const asked: string[] = []
const answers = new Map<string, string>()

beforeEach(async () => {
  home = temporaryFolder('aws')
  asked.length = 0
  answers.clear()
  server = createServer(({ method, url = '', headers }, answer) => {
    const path = url.split('?')[0]!
    asked.push(`${method} ${path} ${headers.authorization ?? headers['x-aws-ec2-metadata-token'] ?? ''}`.trim())
    const text = answers.get(path)
    answer.writeHead(text === undefined ? 404 : 200).end(text)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => void server.close(resolve))
})

const file = (name: string, text: string) => {
  writeFileSync(join(home, name), text)
  return join(home, name)
}
const none = () => ({ HOME: home, AWS_EC2_METADATA_DISABLED: 'true' })
const role = (id: string, endsAt: string) =>
  JSON.stringify({ AccessKeyId: id, SecretAccessKey: 'secret', Token: 'token', Expiration: endsAt })
const later = '2099-01-01T00:00:00Z'

describe('keys are found', () => {
  it('in the environment first', async () => {
    const env = { ...none(), AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', AWS_SESSION_TOKEN: 'c' }
    expect(await new Credentials(env).keys()).toMatchObject({
      accessKeyId: 'a',
      secretAccessKey: 'b',
      sessionToken: 'c',
    })
  })

  it('in the profile that is named, with its region and endpoint', async () => {
    const env = {
      ...none(),
      AWS_PROFILE: 'work',
      AWS_SHARED_CREDENTIALS_FILE: file(
        'credentials',
        '[default]\naws_access_key_id = other\n[work]\r\naws_access_key_id=mine\r\naws_secret_access_key = sec=ret \r\n',
      ),
      AWS_CONFIG_FILE: file(
        'config',
        `[profile  work]\nregion = eu-west-1\nendpoint_url = ${base}\ns3 =\n  region = nested\n`,
      ),
    }
    expect(await new Credentials(env).keys()).toMatchObject({ accessKeyId: 'mine', secretAccessKey: 'sec=ret' })
    expect(await locate('s3://bucket/a', env)).toMatchObject({ region: 'eu-west-1', base: `${base}/bucket` })
  })

  it('from a web identity, from a container with its token, and from a machine with a session of its own', async () => {
    answers.set(
      '/',
      '<X><AccessKeyId>web</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></X>',
    )
    const web = { ...none(), AWS_ROLE_ARN: 'arn', AWS_WEB_IDENTITY_TOKEN_FILE: file('token', 'jwt\n') }
    const keys = new Credentials({ ...web, AWS_ENDPOINT_URL_STS: base })
    expect(await keys.keys()).toMatchObject({ accessKeyId: 'web', sessionToken: 't' })

    answers.set('/creds', role('container', later))
    const container = {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${base}/creds`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'let-me',
    }
    expect(await new Credentials({ ...none(), ...container }).keys()).toMatchObject({ accessKeyId: 'container' })
    expect(asked).toContain('GET /creds let-me')

    answers.set('/latest/api/token', 'session')
    answers.set('/latest/meta-data/iam/security-credentials/', 'worker\n')
    answers.set('/latest/meta-data/iam/security-credentials/worker', role('machine', later))
    const machine = { HOME: home, AWS_EC2_METADATA_SERVICE_ENDPOINT: base }
    expect(await new Credentials(machine).keys()).toMatchObject({ accessKeyId: 'machine' })
    expect(asked).toContain('PUT /latest/api/token')
    expect(asked.at(-1)).toBe('GET /latest/meta-data/iam/security-credentials/worker session')
  })

  it('anew when they are about to end, or were refused, and otherwise once', async () => {
    answers.set('/creds', role('old', later))
    const keys = new Credentials({ ...none(), AWS_CONTAINER_CREDENTIALS_FULL_URI: `${base}/creds` })
    await Promise.all([keys.keys(), keys.keys()])
    await keys.keys()
    expect(asked).toHaveLength(1)
    answers.set('/creds', role('ending', new Date(Date.now() + 60_000).toISOString()))
    keys.forget()
    expect(await keys.keys()).toMatchObject({ accessKeyId: 'ending' })
    answers.set('/creds', role('new', later))
    expect(await keys.keys()).toMatchObject({ accessKeyId: 'new' })
  })

  it('or the error names the remedy', async () => {
    await expect(new Credentials(none()).keys()).rejects.toMatchObject({ code: 'STORE_DENIED' })
    const env = { ...none(), AWS_CONFIG_FILE: file('config', '[default]\nsso_session = corp\n') }
    await expect(new Credentials(env).keys()).rejects.toThrow('export-credentials')
  })
})

describe('addresses', () => {
  it('name a bucket and a prefix, on Amazon by host, elsewhere by path', async () => {
    expect(await locate('s3://bucket/a/b/?region=eu-west-1', none())).toMatchObject({
      ...{ bucket: 'bucket', prefix: 'a/b', name: 's3://bucket/a/b' },
      base: 'https://bucket.s3.eu-west-1.amazonaws.com',
    })
    expect((await locate('s3://a.b', none())).base).toBe('https://s3.us-east-1.amazonaws.com/a.b')
    expect(joinUrl('s3://bucket/a?region=x', 'b')).toBe('s3://bucket/a/b?region=x')
  })

  it.each([
    ...['s3://key:secret@bucket/a', 's3://UPPER/a', 's3://', 's3://bucket/../a', 's3://bucket/a?other=1'],
    ...['s3://bucket/a?endpoint=ftp://x', 's3://bucket/a?endpoint=http://user:pw@x', 's3://bucket/\u0001'],
  ])('refuse %s', async (url) => {
    await expect(locate(url, none())).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })
})
