// The settings of this server, and the source of each. Never a secret: tokens, keys and addresses are shown only by the parts
// that identify them.

import { defaultLimits } from '../core/limits.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { mirrorOf } from '../engine/feed/mirror/policy.ts'
import { hostOf } from '../engine/host/host.ts'
import type { Model } from '../engine/model/model.ts'
import type { Kernel } from '../engine/storage/kernel.ts'
import { isRedundancyNoted } from '../engine/storage/redundancy-choice.ts'
import { notedTiers, shown } from '../engine/storage/tier-policy.ts'
import { defaultServerLimits, type ServerLimits } from './limits.ts'

export interface ServerSetting {
  readonly name: string
  /** Null: not set. */
  readonly value: unknown
  /**
   * 'program': the code that opened the store. 'stored': stored with the store. For policies: 'declared' by a definition, the
   * same for all of its 'kind', or the 'usual' one of its kind.
   */
  readonly from:
    | ('default' | 'option' | 'environment' | 'command line' | 'program')
    | ('stored' | 'declared' | 'kind' | 'usual')
  /** The name of the option or variable. */
  readonly by?: string
}

/** The options of `serve` that are shown. */
interface Given {
  readonly tokens?: unknown
  readonly readOnly?: boolean
  readonly origins?: readonly string[]
  readonly basePath?: string
  readonly definitions?: readonly unknown[]
  readonly mcp?: string
  readonly cacheKeep?: unknown
  readonly limits?: Partial<ServerLimits>
}

/** Settings of `serve`. */
export function givenSettings(options: Given): ServerSetting[] {
  const row = (name: keyof Given, usual: unknown, value: unknown = options[name]): ServerSetting =>
    options[name] === undefined
      ? { name, value: usual, from: 'default' }
      : { name, value, from: 'option', by: `${name} of serve()` }
  const { limits = {} } = options
  return [
    { name: 'access', value: options.tokens ? 'tokens' : 'authorize', from: 'option', by: 'serve()' },
    row('readOnly', false),
    row('origins', []),
    row('basePath', ''),
    row('definitions', [], namesOf(options.definitions ?? [])),
    row('mcp', null),
    row('cacheKeep', null),
    ...Object.entries({ ...defaultServerLimits, ...limits }).map(([name, value]): ServerSetting => {
      const isGiven = limits[name as keyof typeof limits] !== undefined
      return { name: `limits.${name}`, value, ...(isGiven ? by('limits of serve()') : usual) }
    }),
  ]
}

/** All settings, each name once: the host's own rows take precedence. */
export async function settingsOf(
  engine: Reprise,
  given: readonly ServerSetting[],
  ofHost: readonly ServerSetting[],
): Promise<ServerSetting[]> {
  const { kernel, models } = hostOf(engine)
  const known = [...(await storeSettings(engine, kernel)), ...given, ...engineLimits(kernel)]
  const rows = new Map(known.map((row) => [row.name, row]))
  for (const row of ofHost) rows.set(row.name, row)
  return [...rows.values(), ...models.all().flatMap(policies)]
}

const usual = { from: 'default' } as const
const by = (option: string) => ({ from: 'option', by: option }) as const

async function storeSettings(engine: Reprise, kernel: Kernel): Promise<ServerSetting[]> {
  const { kind, location, durability } = await engine.facts()
  const { tiers, pullsBack } = await notedTiers(kernel)
  const mirror = await mirrorOf(kernel)
  const isSealed = kernel.sealer.keyId !== null
  const { redundancy } = kernel
  const isNoted = await isRedundancyNoted(kernel)
  return [
    { name: 'store', value: location || kind, from: 'program' },
    {
      name: 'namespace',
      value: kernel.namespace,
      ...(kernel.namespace === 'default' ? usual : by('namespace of open()')),
    },
    ...Object.entries(durability).map(([name, value]): ServerSetting => ({ name: `store.${name}`, value, ...usual })),
    { name: 'encryption', value: isSealed, ...(isSealed ? by('keys of open()') : usual) },
    { name: 'redundancy', value: redundancy?.isOn ?? false, ...(isNoted ? { from: 'stored' } : usual) },
    {
      name: 'tiers',
      value: tiers.length === 0 ? null : tiers.map(({ name, at, rule }) => ({ name, at: shown(at), rule })),
      ...(tiers.length === 0 ? usual : { from: 'stored' }),
    },
    ...(tiers.length === 0 ? [] : [{ name: 'tiers.pullBack', value: pullsBack, from: 'stored' } as const]),
    { name: 'mirror', value: mirror, ...(mirror === null ? usual : { from: 'stored' }) },
    { name: 'grace', value: kernel.graceMs, ...(kernel.graceMs === defaultGraceMs ? usual : by('grace of open()')) },
  ]
}

const defaultGraceMs = 3_600_000

/** A limit explicitly set to its default cannot be distinguished from an unset one. */
function engineLimits({ limits }: Kernel): ServerSetting[] {
  return Object.entries(limits).map(([name, value]) => {
    const isUsual = value === defaultLimits[name as keyof typeof defaultLimits]
    return { name: `engine.limits.${name}`, value, ...(isUsual ? usual : by('limits of open()')) }
  })
}

/** Policies of the definitions known here. */
function policies(model: Model): ServerSetting[] {
  const { kind, name, fold } = model
  if (name === null || !fold) return []
  return (['retain', 'checkpoint'] as const).flatMap((what) => {
    const value = fold[what] ?? null
    const isUsual = JSON.stringify(value) === JSON.stringify(model.usual?.[what] ?? null)
    // A policy that neither the definition nor its kind sets is not listed.
    if (value === null && isUsual) return []
    const from = model.policy === 'fixed' ? 'kind' : isUsual ? 'usual' : 'declared'
    return [{ name: `${what} of ${kind} ${name}`, value, from } as const]
  })
}

function namesOf(definitions: readonly unknown[]): string[] {
  return definitions.flatMap((each) => {
    const { kind, name } = (each ?? {}) as { readonly kind?: unknown; readonly name?: unknown }
    return typeof kind === 'string' && typeof name === 'string' ? [`${kind} ${name}`] : []
  })
}
