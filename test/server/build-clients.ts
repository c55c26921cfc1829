// Real build tools, each with a small project and its settings for a cache of ours. They come from npm; ccache, sccache and
// Gradle from the machine (sccache: cargo install sccache --locked --no-default-features --features webdav).

import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))
const binOf = (name: string) => join(root, 'node_modules/.bin', name)
export const secret = 'right-'.padEnd(40, 'x')
export const owner = 'owner-'.padEnd(40, 'x')
export const wrong = 'wrong-'.padEnd(40, 'x')
/** Incompressible, and larger than a manifest can hold: it is stored in chunks. */
export const source = Array.from({ length: 400 }, (_, i) => createHash('sha256').update(String(i)).digest('hex')).join(
  '\n',
)

export const home = mkdtempSync(join(tmpdir(), 'reprise-clients-'))
export const clearHome = () => rmSync(home, { recursive: true, force: true })

export interface Built {
  readonly code: number
  readonly said: string
}

export interface Client {
  readonly name: string
  /** Null: it is here. */
  readonly missing: string | null
  /** Writes a project into an empty folder. */
  make(folder: string): void
  build(folder: string, port: number, token: string): Promise<Built>
  isHit(said: string): boolean
  /** It fails without a cache that accepts it and, with `gone`, without one that existed before. */
  readonly stops?: 'refused' | 'gone'
  readonly output: string
  /** The spaces in which its artifacts lie. */
  readonly space: string
}

function put(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
}

function run(cmd: string, args: readonly string[], cwd: string, env: Record<string, string> = {}): Promise<Built> {
  const { PATH = '', LD_LIBRARY_PATH } = process.env
  const own = { PATH, HOME: home, CI: 'true', ...(LD_LIBRARY_PATH !== undefined && { LD_LIBRARY_PATH }) }
  const child = spawn(cmd, args, { cwd, env: { ...own, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece: Buffer) => (said += piece))
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code: code ?? -1, said }))
  })
}

const git = (folder: string) => {
  for (const args of [
    ['init', '-q'],
    ['add', '-A'],
    ['-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-qm', 'a'],
  ]) {
    spawnSync('git', args, { cwd: folder })
  }
}

export const absent = (name: string) => (existsSync(binOf(name)) ? null : `node_modules has no ${name}`)
const onPath = (name: string) =>
  spawnSync(name, ['--version']).status === 0 ? null : `there is no ${name} on the path`

export const turbo = (folder: string, port: number, token: string, key = 'a-signature-of-more-than-32-characters') =>
  run(binOf('turbo'), ['run', 'build'], folder, {
    ...{ TURBO_API: `http://127.0.0.1:${port}`, TURBO_TOKEN: token, TURBO_TEAM: 'team_words' },
    ...{ TURBO_REMOTE_CACHE_SIGNATURE_KEY: key, TURBO_TELEMETRY_DISABLED: '1' },
  })

const bazelBinary = join(root, 'node_modules/@bazel/bazel-linux_x64/bazel-2.1.0-linux-x86_64')
const compile = (folder: string, env: Record<string, string>) =>
  run('ccache', ['cc', '-c', 'in.c', '-o', 'out.o'], folder, { CCACHE_DIR: join(folder, '.ccache'), ...env })

export const clients: readonly Client[] = [
  {
    name: 'turbo',
    missing: absent('turbo'),
    make: (folder) => cpSync(join(root, 'examples/turborepo'), folder, { recursive: true }),
    build: turbo,
    isHit: (said) => said.includes('FULL TURBO'),
    output: 'packages/words/dist/words.bin',
    space: '.turbo-team_words',
  },
  {
    name: 'nx',
    missing: absent('nx'),
    make(folder) {
      const command = 'mkdir -p dist && cp in.txt dist/out.txt'
      const build = { executor: 'nx:run-commands', options: { command, cwd: '{projectRoot}' } }
      const cached = { cache: true, outputs: ['{projectRoot}/dist'], inputs: ['{projectRoot}/in.txt'] }
      put(folder, {
        'package.json': JSON.stringify({ name: 'root', private: true, workspaces: ['packages/*'] }),
        'package-lock.json': JSON.stringify({ name: 'root', lockfileVersion: 3, packages: {} }),
        'nx.json': JSON.stringify({ targetDefaults: { build: cached }, analytics: false, neverConnectToCloud: true }),
        'packages/a/package.json': JSON.stringify({ name: 'a', version: '1.0.0', nx: { targets: { build } } }),
        'packages/a/in.txt': source,
      })
      spawnSync('ln', ['-s', join(root, 'node_modules'), join(folder, 'node_modules')])
    },
    build: (folder, port, token) =>
      run(join(folder, 'node_modules/.bin/nx'), ['run', 'a:build'], folder, {
        ...{ NX_DAEMON: 'false', NX_NO_CLOUD: 'true', NX_ISOLATE_PLUGINS: 'false' },
        NX_WORKSPACE_DATA_DIRECTORY: join(folder, '.nx-data'),
        NX_SELF_HOSTED_REMOTE_CACHE_SERVER: `http://127.0.0.1:${port}`,
        NX_SELF_HOSTED_REMOTE_CACHE_ACCESS_TOKEN: token,
      }),
    isHit: (said) => said.includes('remote cache]'),
    stops: 'gone',
    output: 'packages/a/dist/out.txt',
    space: '.nx',
  },
  {
    name: 'moon',
    missing: absent('moon'),
    make(folder) {
      put(folder, {
        'a/in.txt': source,
        'a/moon.yml': `tasks:\n  build:\n    script: 'mkdir -p dist && cp in.txt dist/out.txt'\n    inputs: ['in.txt']\n    outputs: ['dist']\n`,
      })
    },
    build(folder, port, token) {
      put(folder, {
        '.moon/workspace.yml': `projects:\n  a: a\ntelemetry: false\nremote:\n  host: 'http://127.0.0.1:${port}/cache'\n  api: http\n  auth: { token: CACHE_TOKEN }\n  cache: { instanceName: moon }\n`,
      })
      git(folder)
      return run(binOf('moon'), ['run', 'a:build'], folder, { CACHE_TOKEN: token, PROTO_OFFLINE: '1' })
    },
    isHit: (said) => said.includes('cached from remote'),
    output: 'a/dist/out.txt',
    space: 'moon',
  },
  {
    name: 'ccache',
    missing: onPath('ccache') ?? onPath('cc'),
    make: (folder) =>
      put(folder, { 'in.c': `const char text[] = ${JSON.stringify(source)};\nint f(void) { return 7; }\n` }),
    async build(folder, port, token) {
      const remote = `http://127.0.0.1:${port}/cache/cc|bearer-token=${token}`
      const env = { CCACHE_REMOTE_STORAGE: remote, CCACHE_NOHASHDIR: '1', CCACHE_BASEDIR: folder }
      const { code, said } = await compile(folder, env)
      const stats = await run('ccache', ['--print-stats'], folder, { CCACHE_DIR: join(folder, '.ccache') })
      return { code, said: said + stats.said }
    },
    isHit: (said) => /^remote_storage_hit\t[1-9]/m.test(said) && /^cache_miss\t0$/m.test(said),
    output: 'out.o',
    space: 'cc',
  },
  {
    name: 'sccache',
    missing: process.env.REPRISE_SCCACHE
      ? (onPath('sccache') ?? onPath('cc'))
      : 'the one of Debian knows no WebDAV: set REPRISE_SCCACHE=1 to run one that does',
    make: (folder) =>
      put(folder, { 'in.c': `const char text[] = ${JSON.stringify(source)};\nint f(void) { return 8; }\n` }),
    async build(folder, port, token) {
      const env = {
        SCCACHE_WEBDAV_ENDPOINT: `http://127.0.0.1:${port}/cache`,
        SCCACHE_WEBDAV_KEY_PREFIX: '/sc',
        SCCACHE_WEBDAV_TOKEN: token,
        // A server of its own for each build, which ends with it.
        SCCACHE_SERVER_UDS: join(folder, '.sccache.sock'),
      }
      const { code, said } = await run('sccache', ['cc', '-c', 'in.c', '-o', 'out.o'], folder, env)
      const stats = await run('sccache', ['--show-stats', '--stats-format', 'json'], folder, env)
      await run('sccache', ['--stop-server'], folder, env)
      return { code, said: said + stats.said }
    },
    isHit: (said) => /"cache_hits":\{"counts":\{"[^"]+":[1-9]/.test(said),
    stops: 'refused',
    output: 'out.o',
    space: 'sc',
  },
  {
    name: 'gradle',
    missing: process.env.REPRISE_GRADLE
      ? onPath(process.env.REPRISE_GRADLE)
      : 'it starts slowly: set REPRISE_GRADLE to its command to run it',
    make: (folder) =>
      put(folder, {
        'in.txt': source,
        'settings.gradle': `rootProject.name = 'words'
buildCache {
  local { enabled = false }
  remote(HttpBuildCache) {
    url = System.getenv('CACHE_URL')
    // An address without TLS; versions before 6.0 do not have the option.
    if (it.metaClass.hasProperty(it, 'allowInsecureProtocol')) allowInsecureProtocol = true
    push = true
    credentials { username = 'build'; password = System.getenv('CACHE_TOKEN') }
  }
}
`,
        'build.gradle': `@CacheableTask
class Words extends DefaultTask {
  @InputFile @PathSensitive(PathSensitivity.RELATIVE) File from = project.file('in.txt')
  @OutputFile File to = project.file('dist/out.txt')
  @TaskAction void make() { to.parentFile.mkdirs(); to.text = from.text }
}
task words(type: Words)
`,
      }),
    build: (folder, port, token) =>
      run(process.env.REPRISE_GRADLE!, ['--no-daemon', '--build-cache', '--console=plain', '-i', 'words'], folder, {
        GRADLE_USER_HOME: join(folder, '.gradle-home'),
        CACHE_URL: `http://127.0.0.1:${port}/cache/gradle/`,
        CACHE_TOKEN: token,
        ...(process.env.JAVA_HOME !== undefined && { JAVA_HOME: process.env.JAVA_HOME }),
      }),
    isHit: (said) => said.includes(':words FROM-CACHE'),
    output: 'dist/out.txt',
    space: 'gradle',
  },
  {
    name: 'bazel',
    missing: process.env.REPRISE_BAZEL
      ? existsSync(bazelBinary)
        ? null
        : 'node_modules has no bazel'
      : 'its start takes half a minute: set REPRISE_BAZEL=1 to run it',
    make: (folder) =>
      put(folder, {
        WORKSPACE: '',
        BUILD: 'genrule(name = "g", srcs = ["in.txt"], outs = ["out.txt"], cmd = "cp $(SRCS) $@")\n',
        'in.txt': source,
      }),
    async build(folder, port, token) {
      const binary = join(home, 'bazel')
      if (!existsSync(binary)) {
        copyFileSync(bazelBinary, binary)
        chmodSync(binary, 0o755)
      }
      const start = [`--output_user_root=${join(folder, '.bazel-root')}`]
      const remote = `http://build:${token}@127.0.0.1:${port}/cache/bazel`
      const built = await run(binary, [...start, 'build', '//:g', `--remote_cache=${remote}`], folder)
      await run(binary, [...start, 'shutdown'], folder)
      // Its files are read-only, also for the cleanup.
      spawnSync('chmod', ['-R', 'u+w', join(folder, '.bazel-root')])
      return built
    },
    isHit: (said) => said.includes('remote cache hit'),
    output: 'bazel-bin/out.txt',
    space: 'bazel',
  },
]

/** An empty folder with its project. */
export function cloneFor(client: Client): string {
  const folder = mkdtempSync(join(home, `${client.name}-`))
  client.make(folder)
  return folder
}
