// reprise cache: cached commands. The command's output goes to its usual streams; our own messages go to stderr, so that a
// script run through the cache sees no difference.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import {
  type CacheEntry,
  cacheEntries,
  forgetEntry,
  forgetUnused,
  pinEntry,
} from '../../engine/tools/cache/retention.ts'
import { pinnedAttribute } from '../../engine/tools/cache/uses.ts'
import { artifactCache } from '../../layers/artifact/index.ts'
import { memoCache } from '../../layers/memo/entry.ts'
import { type CommandCheck, type CommandHandle, command, type RemoteCache } from '../../layers/memo/index.ts'
import { sizeOf } from '../byte-size.ts'
import { type Command, duration, flag, type Invocation, list, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { bytes, count, ms, relative } from '../format.ts'
import { nameFromCommand } from '../name-from-command.ts'

type Verb = (invocation: Invocation, rest: readonly string[]) => Promise<number>

/** Results of functions and commands, and artifacts of build tools. */
const kinds = [memoCache, artifactCache]

const cache: Command = async (invocation) => {
  const [name, ...rest] = invocation.args
  const verb = verbs[name!]
  if (!verb) throw new UsageError(`cache has no action ${name}: use ${Object.keys(verbs).join(', ')}`)
  return await verb(invocation, rest)
}

export default cache

const run: Verb = async ({ engine, options, output }, rest) => {
  const handle = await opened(engine, options, rest)
  // Results are also sent after this returns, when the engine closes.
  engine.events.on('problem', ({ where, error }) => {
    if (where.startsWith('cache ')) output.note((error as Error).message)
  })
  const quit = new AbortController()
  const stop = () => quit.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    const onOutput = ({ to, bytes: piece }: { readonly to: 'stdout' | 'stderr'; readonly bytes: Uint8Array }) => {
      if (!output.isJson) process[to].write(piece)
    }
    const ran = await handle
      .run({ signal: quit.signal, refresh: flag(options, 'refresh'), onOutput })
      .catch((error) => {
        if (quit.signal.aborted && isReprise(error, 'ABORTED')) return null
        throw error
      })
    if (!ran) {
      output.note(`${handle.name}: stopped; nothing is kept`)
      return exit.interrupted
    }
    const { exitCode, from, outputs, isInPlace, notKept, unmatched, provenance } = ran
    for (const pattern of unmatched) output.note(`${handle.name}: no file matches --input ${pattern}`)
    if (output.isJson)
      output.json({
        exitCode,
        from,
        outputs,
        isInPlace,
        notKept,
        unmatched,
        provenance: { ...provenance, parts: undefined },
      })
    else if (from !== 'computed') {
      const files =
        outputs.length === 0
          ? ''
          : isInPlace
            ? '; outputs are in place'
            : `; put ${count(outputs.length, 'file')} in place`
      const where = from === 'remote' && provenance.origin ? ` in ${provenance.origin.cache}` : ''
      output.note(`${handle.name}: remembered${where}, saves ${ms(provenance.tookMs)}${files}`)
    } else if (notKept === null)
      output.note(`${handle.name}: ran in ${ms(provenance.tookMs)}, kept ${count(outputs.length, 'file')}`)
    else output.note(`${handle.name}: ran in ${ms(provenance.tookMs)}; nothing is kept: ${notKept}`)
    return exitCode
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

const explain: Verb = async ({ engine, options, output }, rest) => {
  const explained = await (await opened(engine, options, rest)).explain()
  output.result(explained, () => {
    output.line(`${explained.isHit ? 'hit' : 'miss'}: ${explained.why}`)
    for (const { part, name, how } of explained.changes)
      output.line(`  ${part} ${name ?? ''} ${how}`.replace(/ +/g, ' '))
    const { comparedWith } = explained
    if (comparedWith)
      output.note(
        `compared with ${comparedWith.timeline}, computed ${comparedWith.computedAt.toISOString()} by ${comparedWith.by}`,
      )
  })
  return exit.ok
}

const check: Verb = async ({ engine, options, output }, rest) => {
  const handle = await opened(engine, options, rest)
  output.note(`${handle.name}: running it several times`)
  const found = await handle.check()
  output.result(found, () => {
    if (found.exitCode !== 0) return output.line(`it ends with ${found.exitCode}: nothing was checked`)
    const { undeclaredInputs, outside, undeclaredEnv, unstableOutputs } = found
    if (undeclaredInputs === null && unstableOutputs.length === 0)
      output.line(
        'has different outputs in a copy of its directory; without strace, the files that it reads are unknown',
      )
    for (const path of undeclaredInputs ?? []) output.line(`reads ${path}, which is not an input`)
    for (const path of outside) output.line(`reads ${path}, outside of its directory, which is not declared`)
    for (const name of undeclaredEnv) output.line(`reads the variable ${name}, which is not declared`)
    for (const path of unstableOutputs) output.line(`writes ${path} differently each time`)
    if (found.isHermetic) output.line('the command reads only declared files, and its outputs are the same every time')
    for (const line of adviceOf(found)) output.note(line)
    return undefined
  })
  return found.isHermetic ? exit.ok : found.exitCode === 0 ? exit.partly : exit.runFailed
}

/** As options of this command line. */
function adviceOf({ declare: { inputs, tools, env }, unstableOutputs }: CommandCheck): string[] {
  const options = [
    ...inputs.map((path) => `--input '${path}'`),
    ...tools.map((name) => `--tool ${name}`),
    ...env.map((name) => `--env ${name}`),
  ]
  return [
    ...(options.length > 0 ? [`add ${options.join(' ')}`] : []),
    ...(unstableOutputs.length > 0 ? ['make its outputs the same every time, or omit them from --output'] : []),
  ]
}

const ls: Verb = async ({ engine, output }, [name]) => {
  const now = Date.now()
  const entries: CacheEntry[] = []
  for await (const entry of cacheEntries(hostOf(engine), kinds, name)) entries.push(entry)
  output.result(entries, () => {
    if (entries.length === 0) return output.note('nothing is remembered')
    output.table(
      ['NAME', 'SCOPE', 'USED', 'SIZE', 'STATE', 'ID'],
      entries.map((entry) => [
        entry.name,
        entry.scope,
        entry.usedAt === 0 ? '' : relative(entry.usedAt, now),
        bytes(entry.bytes),
        entry.isBusy ? 'computed now' : entry.isEmpty ? 'empty' : entry.isPinned ? 'pinned' : 'kept',
        entry.timeline,
      ]),
    )
    return undefined
  })
  return exit.ok
}

const prune: Verb = async ({ engine, options, output }, [name]) => {
  const [unused, size] = [duration(options, 'unused'), text(options, 'bytes')]
  if (unused === undefined && size === undefined)
    throw new UsageError('choose a limit: --unused 30d, --bytes 2GB, or both')
  const keep = {
    ...(unused !== undefined && { unused }),
    ...(size !== undefined && { bytes: sizeOf(size, '--bytes') }),
  }
  const isDry = !flag(options, 'yes')
  const report = await forgetUnused(hostOf(engine), kinds, name, keep, isDry)
  output.result({ ...report, isDry }, () => {
    for (const timeline of report.timelines) output.line(`${isDry ? 'would forget' : 'forgot'} ${timeline}`)
    output.line(
      `${count(report.entries, 'result')}, ${bytes(report.bytes)}; ${report.kept} stay, ${bytes(report.keptBytes)}`,
    )
    output.note(
      isDry
        ? 'nothing was changed; add --yes to do it'
        : 'the next collection removes their chunks: reprise prune --yes',
    )
  })
  return exit.ok
}

const pinning =
  (isPinned: boolean): Verb =>
  async ({ engine, output }, ids) => {
    for (const id of entryIds(ids)) {
      await pinEntry(hostOf(engine), id, isPinned)
      output.note(`${id} is ${isPinned ? 'pinned' : 'no longer pinned'}`)
    }
    return exit.ok
  }

const forget: Verb = async ({ engine, options, output }, ids) => {
  for (const id of entryIds(ids)) {
    const head = await hostOf(engine).head(id)
    if (head?.attributes[pinnedAttribute] === true && !flag(options, 'yes')) {
      throw new UsageError(`${id} is pinned: --yes forgets it anyway`)
    }
  }
  const results: { readonly id: string; readonly isForgotten: boolean }[] = []
  for (const id of entryIds(ids)) results.push({ id, isForgotten: await forgetEntry(hostOf(engine), id) })
  output.result(results, () => {
    for (const { id, isForgotten } of results)
      output.line(`${id}: ${isForgotten ? 'forgotten' : 'not in the cache, or being computed now'}`)
  })
  return results.every(({ isForgotten }) => isForgotten) ? exit.ok : exit.notFound
}

const verbs: Readonly<Record<string, Verb>> = {
  run,
  explain,
  check,
  ls,
  prune,
  pin: pinning(true),
  unpin: pinning(false),
  forget,
}

function entryIds(ids: readonly string[]): readonly string[] {
  if (ids.length === 0) throw new UsageError('name the entries: reprise cache ls lists them')
  for (const id of ids) {
    if (!kinds.some((kind) => isWithin(kind.within(), id) && kind.place(id) !== null)) {
      throw new RepriseError('INVALID_ARGUMENT', `${id} is not an entry of the cache: reprise cache ls lists them`, {
        id,
      })
    }
  }
  return ids
}

async function opened(
  engine: Reprise,
  options: Invocation['options'],
  words: readonly string[],
): Promise<CommandHandle> {
  if (words.length === 0)
    throw new UsageError("name the command behind --: reprise cache run --input 'src/**' -- npm run build")
  const inputs = list(options, 'input')
  if (inputs.length === 0 && !flag(options, 'no-inputs')) {
    throw new UsageError("name the files that it reads, such as --input 'src/**', or use --no-inputs if it reads none")
  }
  const [name, directory, scope] = ['name', 'directory', 'scope'].map((each) => text(options, each))
  const [ttl, errors] = [duration(options, 'ttl'), duration(options, 'errors')]
  const remote = remotesOf(options)
  const definition = command(name ?? nameFromCommand(words), {
    // One word is a shell command line, as quoted: reprise cache run -- 'tsc && cp a b'.
    cmd: words.length === 1 ? words[0]! : words,
    inputs,
    outputs: list(options, 'output'),
    ...(flag(options, 'clean') && { clean: true }),
    env: list(options, 'env'),
    tools: list(options, 'tool'),
    ...(directory !== undefined && { directory }),
    ...(ttl !== undefined && { ttl }),
    ...(errors !== undefined && { errors }),
    ...(scope !== undefined && { scope }),
    ...(remote.length > 0 && { remote }),
  })
  return await engine.open(definition)
}

/** In order. The token is for the server in the list. */
function remotesOf(options: Invocation['options']): RemoteCache[] {
  const given = list(options, 'remote')
  const urls = given.length > 0 ? given : (process.env.REPRISE_CACHE_URL ?? '').split(',').map((url) => url.trim())
  const token = process.env.REPRISE_CACHE_TOKEN
  const timeout = duration(options, 'remote-timeout')
  const isServer = (url: string) => !/^s3:/i.test(url)
  if (token && urls.filter(isServer).length > 1) {
    throw new UsageError(
      'REPRISE_CACHE_TOKEN is for one server: name at most one server with --remote; buckets can be added',
    )
  }
  return urls
    .filter((url) => url !== '')
    .map((url) => ({ url, ...(token && isServer(url) && { token }), ...(timeout !== undefined && { timeout }) }))
}
