// reprise resource: the objects of a kind: list, get, apply, delete, watch, their history, and back to an earlier revision.
// A kind is named; with --module its own definition (schema, API names) is used.

import { RepriseError } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { type Applying, type ResourceDefinition, type ResourceObject, resource } from '../../layers/resource/index.ts'
import { isResource } from '../../layers/resource/resource.ts'
import { type Command, flag, type Invocation, text, whole } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import { brief } from '../format.ts'
import { readJson } from '../json-argument.ts'
import { loadModule } from '../module.ts'
import { type Output, toJson } from '../output.ts'
import { confirm } from '../prompt.ts'

const verbs: Readonly<Record<string, (invocation: Invocation, args: readonly string[]) => Promise<number>>> = {
  ls,
  get,
  apply,
  delete: remove,
  watch,
  history,
  rollback,
}

const command: Command = async (invocation) => {
  const [verb, ...rest] = invocation.args
  const act = Object.hasOwn(verbs, verb!) ? verbs[verb!] : undefined
  if (!act) throw new UsageError(`choose an action: reprise resource ${Object.keys(verbs).join('|')}`)
  return await act(invocation, rest)
}

export default command

async function ls(invocation: Invocation, [kind]: readonly string[]): Promise<number> {
  const { engine, options, output } = invocation
  if (kind === undefined) return await kinds(engine, output)
  const handle = await openKind(invocation, kind)
  const labels = text(options, 'labels')
  const { revision, items } = await handle.list(labels === undefined ? {} : { labels })
  output.result({ kind, revision, items }, () => {
    if (items.length === 0) return output.note(`no ${kind}`)
    return output.table(
      ['NAME', 'REVISION', 'GENERATION', 'OBSERVED', 'SPEC'],
      items.map((object) => [
        object.name,
        String(object.revision),
        String(object.generation),
        String(object.observedGeneration ?? '-'),
        brief(toJson(object.spec), 80),
      ]),
    )
  })
  return exit.ok
}

async function kinds(engine: Reprise, output: Output): Promise<number> {
  const found: { kind: string; timeline: string; entries: number }[] = []
  for await (const { timeline, seq } of hostOf(engine).each({ prefix: 'resource/' })) {
    found.push({ kind: idBelow('resource/', timeline) ?? timeline, timeline, entries: seq })
  }
  output.result(found, () => {
    if (found.length === 0) return output.note('no resources')
    return output.table(
      ['KIND', 'CHANGES'],
      found.map(({ kind, entries }) => [kind, String(entries)]),
    )
  })
  return exit.ok
}

async function get(invocation: Invocation, args: readonly string[]): Promise<number> {
  const [kind, name] = two(args, 'get KIND NAME')
  const object = await existing(invocation, kind, name)
  invocation.output.result(object, () => invocation.output.lines(toJson(object, 2)))
  return exit.ok
}

async function apply(invocation: Invocation, args: readonly string[]): Promise<number> {
  const [kind, file] = two(args, 'apply KIND FILE')
  const { options, output } = invocation
  const by = text(options, 'by') ?? 'reprise'
  const given = await readJson(invocation, file)
  const objects = (Array.isArray(given) ? given : [given]) as Partial<Applying<object>>[]
  for (const object of objects) {
    if (typeof object !== 'object' || object === null || typeof object.name !== 'string') {
      throw new RepriseError('INVALID_ARGUMENT', `${file}: each object needs a name, and usually a spec`, { file })
    }
  }
  const handle = await openKind(invocation, kind)
  const applied: ResourceObject[] = []
  for (const { name, labels, annotations, owners, finalizers, spec } of objects) {
    const fields = { labels, annotations, owners, finalizers, spec }
    const named = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
    applied.push(await handle.apply({ ...named, name: name!, by, force: flag(options, 'force') }))
  }
  output.result(applied, () => {
    for (const { name, revision } of applied) output.line(`applied ${kind} ${name}, revision ${revision}`)
  })
  return exit.ok
}

async function remove(invocation: Invocation, args: readonly string[]): Promise<number> {
  const [kind, name] = two(args, 'delete KIND NAME')
  const { options, output, stdin } = invocation
  const object = await existing(invocation, kind, name)
  if (!flag(options, 'yes') && !(await confirm(`delete ${kind} ${name}?`, stdin, output))) {
    output.result({ deleted: null, object }, () => output.note('nothing was deleted; add --yes to delete'))
    return exit.ok
  }
  const handle = await openKind(invocation, kind)
  const last = await handle.delete(name, { uid: object.uid })
  output.result({ deleted: name, object: last }, () => output.line(`deleted ${kind} ${name}`))
  return exit.ok
}

/** Follows changes until Ctrl-C, or up to the present with --once. */
async function watch(invocation: Invocation, args: readonly string[]): Promise<number> {
  const { options, output } = invocation
  const kind = one(args, 'watch KIND')
  const handle = await openKind(invocation, kind)
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  output.onClosed(() => stop.abort())
  const from = whole(options, 'from')
  const labels = text(options, 'labels')
  const isOnce = flag(options, 'once')
  const end = isOnce && from !== undefined ? (await handle.list({ limit: 1 })).revision : null
  if (end !== null && from! >= end) return exit.ok
  const given = { ...(from !== undefined && { from }), ...(labels !== undefined && { labels }), signal: stop.signal }
  for await (const event of handle.watch(end === null ? given : { ...given, bookmarks: '100ms' })) {
    if (event.type === 'bookmark') {
      if (isOnce && (end === null ? event.isInitialEnd : event.revision >= end)) break
      continue
    }
    if (output.isJson) output.json(event)
    else output.line(`${event.revision}  ${event.type}  ${event.object.name}  ${brief(toJson(event.object.spec), 80)}`)
    if (end !== null && event.revision >= end) break
  }
  return exit.ok
}

/** The revisions of one object that history still has, oldest first. */
async function history(invocation: Invocation, args: readonly string[]): Promise<number> {
  const [kind, name] = two(args, 'history KIND NAME')
  const { output } = invocation
  const found = await revisionsOf(invocation, kind, name)
  output.result(found, () => {
    if (found.length === 0)
      output.note(`history has no change of ${kind} ${name} any more: it keeps what \`retain\` says`)
    for (const { revision, type, spec } of found) output.line(`${revision}  ${type}  ${brief(toJson(spec), 100)}`)
  })
  return exit.ok
}

/** Writes the fields that the object had at a revision as a new one: watchers see a change like any other. */
async function rollback(invocation: Invocation, args: readonly string[]): Promise<number> {
  const [kind, name] = two(args, 'rollback KIND NAME --to REVISION')
  const { options, output, stdin } = invocation
  const to = whole(options, 'to')
  if (to === undefined) throw new UsageError('--to names the revision: reprise resource history lists them')
  const found = (await revisionsOf(invocation, kind, name)).filter(({ revision }) => revision <= to).at(-1)
  if (!found || found.type === 'deleted') {
    const what = `${kind} ${name} has no state at revision ${to} in the history that is kept`
    throw new RepriseError('NOT_FOUND', what, { kind, name, revision: to })
  }
  const { spec, labels, annotations } = found
  if (!flag(options, 'yes') && !(await confirm(`write ${brief(toJson(spec), 60)}?`, stdin, output))) {
    output.result({ applied: null, from: found.revision, spec }, () => {
      output.line(brief(toJson(spec), 200))
      output.note('nothing was written; add --yes to write this spec')
    })
    return exit.ok
  }
  const handle = await openKind(invocation, kind)
  const object = await handle.update({ name, revision: 'any', spec, labels, annotations })
  output.result({ applied: object.revision, from: found.revision, spec: object.spec }, () =>
    output.line(`${kind} ${name} has the fields of revision ${found.revision} again, as revision ${object.revision}`),
  )
  return exit.ok
}

async function revisionsOf(invocation: Invocation, kind: string, name: string) {
  const handle = await openKind(invocation, kind)
  const { revision: end } = await handle.list({ limit: 1 })
  const head = await invocation.engine.head(handle.coordinate.timeline)
  const found: (Pick<ResourceObject, 'spec' | 'labels' | 'annotations'> & { revision: number; type: string })[] = []
  // A revision is a position in history, counted from the era of the store.
  const from = head && head.floor > 0 ? end - (head.seq - head.floor) : 0
  if (!head || head.seq === head.floor) return found
  for await (const event of handle.watch({ from, prefix: name, bookmarks: '100ms' })) {
    if (event.type !== 'bookmark' && event.object.name === name) {
      const { spec, labels, annotations } = event.object
      found.push({ revision: event.revision, type: event.type, spec, labels, annotations })
    }
    if (event.revision >= end) break
  }
  return found
}

async function existing(invocation: Invocation, kind: string, name: string): Promise<ResourceObject> {
  const object = await (await openKind(invocation, kind)).get(name)
  if (!object) throw new RepriseError('NOT_FOUND', `there is no ${kind} ${name}`, { kind, name })
  return object
}

/** Reading creates no kind: only `apply` does. */
async function openKind({ engine, args, options }: Invocation, kind: string) {
  const module = text(options, 'module')
  const exported = module === undefined ? [] : Object.values(await loadModule(module)).filter(isResource)
  const definition: ResourceDefinition = exported.find(({ name }) => name === kind) ?? resource(kind)
  if (args[0] !== 'apply' && !definition.from && !(await engine.head(definition.prefix))) {
    throw new RepriseError('NOT_FOUND', `there is no kind ${kind} in this store: reprise resource ls lists them`, {
      kind,
    })
  }
  return await engine.open(definition)
}

function one(args: readonly string[], usage: string): string {
  if (args.length !== 1) throw new UsageError(`reprise resource ${usage}`)
  return args[0]!
}

function two(args: readonly string[], usage: string): readonly [string, string] {
  if (args.length !== 2) throw new UsageError(`reprise resource ${usage}`)
  return [args[0]!, args[1]!]
}
