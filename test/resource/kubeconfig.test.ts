// The address and the credentials of a cluster: kubeconfig files, the files of a pod, and certificates, against a TLS server
// that reports its clients. Certificates are made with openssl.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer as createPlain, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer, type Server as TlsServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { delimiter, join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ApiClient } from '../../src/adapters/kubernetes/api-client.ts'
import { connectTo } from '../../src/adapters/kubernetes/connection.ts'
import { kubernetes } from '../../src/adapters/kubernetes/index.ts'
import { root } from '../cli/support.ts'
import { temporaryFolder } from '../support/fixture.ts'

const missing = spawnSync('openssl', ['version']).status === 0 ? null : 'there is no openssl'
if (missing !== null) console.log(`skipped: nobody asks a cluster with certificates: ${missing}`)

describe.skipIf(missing !== null)('a cluster is reached', () => {
  const folder = temporaryFolder('kubeconfig')
  const at = (name: string) => join(folder, name)
  const data = (name: string) => readFileSync(at(name)).toString('base64')
  let secure: TlsServer
  let plain: Server
  let port = 0
  let files = 0
  /** The requested addresses. */
  const seen: string[] = []

  /** Reports its client: the name in a certificate, and the headers of the request. */
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const { CN } = (request.socket as Partial<TLSSocket>).getPeerCertificate?.()?.subject ?? {}
    seen.push(request.url!)
    const { authorization, 'impersonate-user': as } = request.headers
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ path: request.url, authorization, as, certificate: CN }))
  }
  const serverAt = (host: string) => `https://${host}:${port}`

  /** A file with the single context `one`, unless configured otherwise. */
  const kubeconfig = (cluster: object, user: object | null, more: object = {}): string => {
    const value = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: serverAt('127.0.0.1'), ...cluster } }],
      users: user ? [{ name: 'u', user }] : [],
      contexts: [{ name: 'one', context: { cluster: 'c', ...(user && { user: 'u' }), namespace: 'team-a' } }],
      'current-context': 'one',
      ...more,
    }
    files += 1
    writeFileSync(at(`config-${files}`), asYaml(value))
    return at(`config-${files}`)
  }
  const ask = (...how: Parameters<typeof connectTo>) =>
    new ApiClient(connectTo(...how)).ask({ method: 'GET', path: '/who', about: {} })

  beforeAll(async () => {
    const openssl = (...args: string[]) => {
      const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' })
      if (status !== 0) throw new Error(stderr)
    }
    const made = (name: string, subject: string, more: readonly string[]) => {
      openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', `${name}.key`)
      openssl('req', '-new', '-x509', '-key', `${name}.key`, '-subj', `/CN=${subject}`, '-out', `${name}.crt`, ...more)
    }
    made('ca', 'test-ca', [])
    made('server', 'server', [
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      '-addext',
      'subjectAltName=IP:127.0.0.1,DNS:cluster.test',
    ])
    made('client', 'somebody', ['-CA', 'ca.crt', '-CAkey', 'ca.key'])
    made('other-ca', 'other-ca', [])
    const [cert, key, ca] = ['server.crt', 'server.key', 'ca.crt'].map((name) => readFileSync(at(name)))
    secure = createServer({ cert, key, ca, requestCert: true, rejectUnauthorized: false } as object, answer)
    plain = createPlain(answer)
    for (const each of [secure, plain]) await new Promise<void>((resolve) => each.listen(0, '127.0.0.1', resolve))
    port = (secure.address() as AddressInfo).port
  })
  afterAll(() => {
    for (const each of [secure, plain]) {
      each?.close()
      each?.closeAllConnections()
    }
  })

  it('with a certificate authority and a token, each in the file or beside it', async () => {
    const said = { path: '/who', authorization: 'Bearer t' }
    const ca = { 'certificate-authority-data': data('ca.crt') }
    expect(await ask(kubeconfig(ca, { token: 't' }))).toEqual(said)
    // Relative to the file, as kubectl reads it.
    expect(await ask(kubeconfig({ 'certificate-authority': 'ca.crt' }, { token: 't' }))).toEqual(said)
    const other = { 'certificate-authority-data': data('other-ca.crt') }
    await expect(ask(kubeconfig(other, { token: 't' }))).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    await expect(ask(kubeconfig({}, { token: 't' }))).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    expect(await ask(kubeconfig({ 'insecure-skip-tls-verify': true }, { token: 't' }))).toEqual(said)
    // A file of tokens ends with a new line, wins over a token, and is replaced while it is used.
    writeFileSync(at('token'), 'first\n')
    const connected = connectTo(kubeconfig(ca, { token: 't', tokenFile: 'token' }))
    expect((await connected()).headers).toEqual({ Authorization: 'Bearer first' })
    writeFileSync(at('token'), 'second\n')
    expect((await connected()).headers).toEqual({ Authorization: 'Bearer second' })
    const gone = ask(kubeconfig(ca, { tokenFile: 'nowhere' }))
    await expect(gone).rejects.toMatchObject({ code: 'STORE_UNREACHABLE', data: { path: at('nowhere') } })
  })

  it('with a client certificate, with a password, as another user, and anonymously', async () => {
    const ca = { 'certificate-authority': 'ca.crt' }
    const said = { path: '/who', certificate: 'somebody' }
    expect(await ask(kubeconfig(ca, { 'client-certificate': 'client.crt', 'client-key': 'client.key' }))).toEqual(said)
    const inside = { 'client-certificate-data': data('client.crt'), 'client-key-data': data('client.key') }
    expect(await ask(kubeconfig(ca, inside))).toEqual(said)
    const [cert, key] = ['client.crt', 'client.key'].map((name) => readFileSync(at(name), 'utf8')) as [string, string]
    const byHand = { server: serverAt('127.0.0.1'), ca: readFileSync(at('ca.crt'), 'utf8'), cert, key }
    expect(await ask(byHand)).toEqual(said)
    const basic = `Basic ${Buffer.from('me:secret').toString('base64')}`
    expect(await ask(kubeconfig(ca, { username: 'me', password: 'secret' }))).toMatchObject({ authorization: basic })
    expect(await ask(kubeconfig(ca, { token: 't', as: 'you' }))).toMatchObject({ as: 'you' })
    expect(await ask(kubeconfig(ca, null))).toEqual({ path: '/who' })
    // A part of the credentials would be omitted.
    const groups = ask(kubeconfig(ca, { token: 't', as: 'you', 'as-groups': ['admins'] }))
    await expect(groups).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /as-groups/ })
  })

  it('by the context that is named, or the current one, of one file or several', async () => {
    const ca = { 'certificate-authority-data': data('ca.crt') }
    const users = ['a', 'b'].map((name) => ({ name, user: { token: name } }))
    const contexts = ['a', 'b'].map((name) => ({ name, context: { cluster: 'c', user: name } }))
    const file = kubeconfig(ca, null, { users, contexts, 'current-context': 'b' })
    expect(await ask(file)).toMatchObject({ authorization: 'Bearer b' })
    expect(await ask({ kubeconfig: file, context: 'a' })).toMatchObject({ authorization: 'Bearer a' })
    const unknown = { code: 'INVALID_ARGUMENT', message: /no context x .*a, b/ }
    await expect(ask({ kubeconfig: file, context: 'x' })).rejects.toMatchObject(unknown)
    const unchosen = kubeconfig(ca, null, { users, contexts, 'current-context': '' })
    await expect(ask(unchosen)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /no current-context/ })
    // The first mention of a name wins, and a file that is not there is passed over.
    const first = kubeconfig(ca, null, {
      users: [{ name: 'b', user: { token: 'B' } }],
      contexts: [],
      'current-context': 'a',
    })
    const env = { KUBECONFIG: [at('nowhere'), first, file].join(delimiter) }
    expect(await ask(undefined, { env, account: '' })).toMatchObject({ authorization: 'Bearer a' })
    expect(await ask({ context: 'b' }, { env, account: '' })).toMatchObject({ authorization: 'Bearer B' })
    mkdirSync(at('.kube'))
    cpSync(file, at('.kube/config'))
    expect(await ask(undefined, { env: { HOME: folder }, account: '' })).toMatchObject({ authorization: 'Bearer b' })
    for (const context of [
      { cluster: 'x', user: 'a' },
      { cluster: 'c', user: 'x' },
    ]) {
      const broken = kubeconfig(ca, null, { users, contexts: [{ name: 'one', context }] })
      await expect(ask(broken)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /does not exist: x/ })
    }
  })

  it('and an invalid file is refused with the reason, and read again', async () => {
    for (const text of ['a: [', 'just a text', '', '- 1', 'clusters: 7', 'users:\n- 1']) {
      writeFileSync(at('broken'), text)
      await expect(ask(at('broken')), text).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /broken/ })
    }
    await expect(ask(at('nowhere'))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /nowhere/ })
    const connected = connectTo(at('later'))
    await expect(connected()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    cpSync(kubeconfig({}, { token: 'late' }), at('later'))
    expect((await connected()).headers).toEqual({ Authorization: 'Bearer late' })
  })

  it('by another name of the server, without TLS, and through a proxy', async () => {
    const ca = { 'certificate-authority': 'ca.crt' }
    const named = { ...ca, 'tls-server-name': 'cluster.test' }
    expect(await ask(kubeconfig(named, { token: 't' }))).toMatchObject({ authorization: 'Bearer t' })
    const wrong = { ...ca, 'tls-server-name': 'elsewhere.test' }
    await expect(ask(kubeconfig(wrong, { token: 't' }))).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    const server = `http://127.0.0.1:${(plain.address() as AddressInfo).port}/prefix`
    expect(await ask(kubeconfig({ server }, { token: 't' }))).toEqual({
      path: '/prefix/who',
      authorization: 'Bearer t',
    })
    const through: string[] = []
    const proxy = createPlain()
    proxy.on('connect', ({ url }: IncomingMessage, socket: Socket) => {
      through.push(url!)
      const onward = connect(port, '127.0.0.1', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
      socket.pipe(onward).pipe(socket)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const proxied = { ...ca, 'proxy-url': `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
    const certified = { 'client-certificate': 'client.crt', 'client-key': 'client.key' }
    expect(await ask(kubeconfig(proxied, certified))).toMatchObject({ certificate: 'somebody' })
    expect(through).toEqual([`127.0.0.1:${port}`])
    proxy.close()
  })

  it('with the credentials of a plugin, which gets the same input as from kubectl', async () => {
    const ca = { 'certificate-authority-data': data('ca.crt') }
    const program = `
      const { spec } = JSON.parse(process.env.KUBERNETES_EXEC_INFO)
      if (process.env.FAIL) { console.error('log in first'); process.exit(1) }
      const token = [process.env.WHO, spec.interactive, spec.cluster?.server === undefined].join()
      console.log(JSON.stringify({ kind: 'ExecCredential', status: { token } }))`
    writeFileSync(at('plugin.cjs'), `#!${process.execPath}\n${program}`, { mode: 0o755 })
    const apiVersion = 'client.authentication.k8s.io/v1'
    const plugin = { apiVersion, command: './plugin.cjs', env: [{ name: 'WHO', value: 'me' }] }
    expect(await ask(kubeconfig(ca, { exec: plugin }))).toMatchObject({ authorization: 'Bearer me,false,true' })
    const informed = kubeconfig(ca, { exec: { ...plugin, provideClusterInfo: true } })
    expect(await ask(informed)).toMatchObject({ authorization: 'Bearer me,false,false' })
    const failing = kubeconfig(ca, { exec: { ...plugin, env: [{ name: 'FAIL', value: '1' }] } })
    const why = { code: 'STORE_UNREACHABLE', message: /plugin[.]cjs returned no credentials: log in first/ }
    await expect(ask(failing)).rejects.toMatchObject(why)
    const absent = kubeconfig(ca, { exec: { ...plugin, command: 'no-such-plugin' } })
    await expect(ask(absent)).rejects.toMatchObject({ code: 'STORE_UNREACHABLE', message: /no-such-plugin/ })
    const asking = kubeconfig(ca, { exec: { ...plugin, interactiveMode: 'Always' } })
    await expect(ask(asking)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: /interactiveMode/ })
  })

  it('from a pod, by the files of its service account', async () => {
    const env = {
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: String(port),
      KUBECONFIG: at('nowhere'),
    }
    const account = at('account')
    await expect(ask(undefined, { env, account })).rejects.toMatchObject({
      code: 'STORE_UNREACHABLE',
      data: { path: join(account, 'ca.crt') },
    })
    mkdirSync(account)
    cpSync(at('ca.crt'), join(account, 'ca.crt'))
    writeFileSync(join(account, 'token'), 'pod\n')
    writeFileSync(join(account, 'namespace'), 'team-a')
    const client = new ApiClient(connectTo(undefined, { env, account }))
    const who = { method: 'GET', path: '/who', about: {} } as const
    expect(await client.ask(who)).toEqual({ path: '/who', authorization: 'Bearer pod' })
    writeFileSync(join(account, 'token'), 'pod-2\n')
    expect(await client.ask(who)).toEqual({ path: '/who', authorization: 'Bearer pod-2' })
    const at6 = connectTo(undefined, { env: { ...env, KUBERNETES_SERVICE_HOST: '::1' }, account })
    expect((await at6()).server.host).toBe(`[::1]:${port}`)
  })

  it('in all namespaces, whichever the context names', async () => {
    const file = kubeconfig({ 'certificate-authority': 'ca.crt' }, { token: 't' })
    const api = {
      group: 'g',
      version: 'v1',
      kind: 'Note',
      plural: 'notes',
      singular: 'note',
      shortNames: [],
      namespaced: true,
    }
    const asked = async (namespace?: string) => {
      seen.splice(0)
      await kubernetes(file)
        .collection({ name: 'notes', api }, namespace)
        .list({})
        .catch(() => undefined)
      return seen
    }
    expect(await asked()).toEqual(['/apis/g/v1/notes'])
    expect(await asked('team-b')).toEqual(['/apis/g/v1/namespaces/team-b/notes'])
  })

  it('without the library that reads kubeconfigs, the error names the package to install', () => {
    const alone = at('alone')
    for (const each of ['core', 'layers/resource/rules', 'adapters/kubernetes'])
      cpSync(join(root, 'dist', each), join(alone, each), { recursive: true })
    writeFileSync(join(alone, 'package.json'), '{"type":"module"}')
    const url = pathToFileURL(join(alone, 'adapters/kubernetes/connection.js')).href
    const program = `
      const { connectTo } = await import(${JSON.stringify(url)})
      const told = await connectTo('kubeconfig.yaml')().catch(({ code, message }) => code + ': ' + message)
      console.log(told, (await connectTo({ server: 'https://here', token: 't' })()).headers.authorization)`
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: alone,
      encoding: 'utf8',
    })
    expect(stdout).toMatch(/^DRIVER_MISSING: .*npm install @kubernetes[/]client-node .*Bearer t\n$/)
  })
})

/** Real YAML, not its subset JSON: only as much of it as a kubeconfig needs. */
function asYaml(value: unknown, indent = ''): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return ' []\n'
    return `\n${value.map((each) => `${indent}- ${asYaml(each, `${indent}  `).trimStart()}`).join('')}`
  }
  if (typeof value !== 'object' || value === null) return ` ${JSON.stringify(value)}\n`
  const lines = Object.entries(value).map(([name, each]) => `${indent}${name}:${asYaml(each, `${indent}  `)}`)
  return lines.length === 0 ? ' {}\n' : `\n${lines.join('')}`
}
