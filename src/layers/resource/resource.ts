// Resources: objects with a desired and an actual state, with list and watch, so that programs can follow them and drive the
// actual state towards the desired one. One timeline per kind: resource/<name>, or resource/<name>/<id>
// (docs/decisions/resources.md explains why not one per object).

import { type CheckpointPolicy, checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/checkpoint/retention.ts'
import { timelineId } from '../../core/coordinate.ts'
import { toMs } from '../../core/duration.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Host } from '../../engine/host/host.ts'
import {
  checkName,
  type Entity,
  type Fold,
  type OpenOptions,
  opens,
  turnWaitMs,
} from '../../engine/model/definition.ts'
import { type Described, describes, idOf } from '../../engine/model/model.ts'
import type { StandardSchema } from '../../engine/model/schema.ts'
import { ResourceHandle, type ResourceSchemas } from './handle.ts'
import { Lists } from './list.ts'
import { resourceFold, resourceModel, resourcePrefix, usualPolicy } from './model.ts'
import { OpenResource } from './open-resource.ts'
import type { OriginCollection, ResourceOrigin } from './origin.ts'
import { OriginResource } from './origin-resource.ts'
import { type ApiNames, type ApiOptions, apiNames } from './rules/api-names.ts'
import type { ResourceState } from './rules/state.ts'
import type { SharedResource } from './shared-resource.ts'

export interface ResourceOptions<Spec = unknown, Status = unknown> {
  /** Validates a spec; any library that implements Standard Schema. */
  readonly schema?: StandardSchema<unknown, Spec>
  readonly status?: StandardSchema<unknown, Status>
  /** Default: after 10,000 changes, or when recovery would take longer than two seconds. */
  readonly checkpoint?: CheckpointPolicy
  /** Default: two checkpoints, and an hour of history, from which watchers can resume. */
  readonly retain?: RetentionPolicy
  /** Names of the kind for clients of Kubernetes. Default: derived from the resource's name. */
  readonly api?: ApiOptions
  /**
   * Another API server that holds the objects in place of the store: `kubernetes(…)` of `reprise/kubernetes`. Informers and
   * controllers follow the objects there, and keep their own progress in the store.
   */
  readonly from?: ResourceOrigin
}

const known = namesOf<ResourceOptions>()('schema status checkpoint retain api from')

export interface ResourceDefinition<Spec = unknown, Status = unknown>
  extends Entity<ResourceHandle<Spec, Status>>,
    Described {
  readonly kind: 'resource'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<ResourceState>
  readonly api: ApiNames
  /** Another API server that holds the objects in place of the store. */
  readonly from?: ResourceOrigin | undefined
}

export function isResource(value: unknown): value is ResourceDefinition {
  return typeof value === 'object' && value !== null && describes in value && Reflect.get(value, 'kind') === 'resource'
}

/** @example const sites = await rp.open(resource<{ url: string }>('sites')) */
export function resource<Spec = unknown, Status = unknown>(
  name: string,
  options: ResourceOptions<Spec, Status> = {},
): ResourceDefinition<Spec, Status> {
  checkName('resource', name)
  checkOptions(`resource ${name}`, options, known)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  const api = apiNames(name, options.api)
  const prefix = `${resourcePrefix}${name}`
  const fold = resourceFold({
    checkpoint: options.checkpoint ?? usualPolicy.checkpoint,
    retain: options.retain ?? usualPolicy.retain,
  })
  const model = resourceModel(name, prefix, fold)
  const { from } = options
  from?.declare({ name, api })
  const schemas: ResourceSchemas = { schema: options.schema, status: options.status }
  return {
    [describes]: model,
    kind: 'resource',
    canShare: true,
    name,
    prefix,
    fold,
    api,
    from,
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (!from) engine.declare(model)
      const kind = idOf(name, id)
      const start = from
        ? () => beginElsewhere(engine, kind, from.collection({ name, api }, id))
        : () => begin(engine, idOf(prefix, id), fold, open)
      const { resource, lists, leave } = await opened(engine, idOf(prefix, id), start)
      return new ResourceHandle<Spec, Status>(id ?? name, resource, schemas, lists, leave)
    },
  }
}

interface Opened {
  readonly resource: SharedResource
  readonly lists: Pick<Lists, 'page'>
  forget(): void
}

interface Shared {
  readonly opening: Promise<Opened>
  holders: number
}

const registry = {}

/** One open resource per kind and process, shared by all its handles: they share its state and read its history once. */
async function opened(engine: Host, id: string, start: () => Promise<Opened>) {
  const all = engine.once(registry, () => new Map<string, Shared>())
  let shared = all.get(id)
  if (!shared) {
    shared = { opening: start(), holders: 0 }
    all.set(id, shared)
    shared.opening.catch(() => all.delete(id))
  }
  const mine = shared
  mine.holders += 1
  const { resource, lists, forget } = await mine.opening
  const leave = async () => {
    mine.holders -= 1
    if (mine.holders > 0) return
    if (all.get(id) === mine) all.delete(id)
    forget()
    await resource.close()
  }
  return { resource, lists, leave }
}

async function beginElsewhere(engine: Host, kind: string, origin: OriginCollection): Promise<Opened> {
  const resource = new OriginResource(engine, kind, origin)
  return { resource, lists: resource, forget: engine.onClose(() => resource.close()) }
}

async function begin(engine: Host, id: string, fold: Fold<ResourceState>, options: OpenOptions): Promise<Opened> {
  const { mustExist = false, evenInvalid = false, wait } = options
  // Its revisions are numbered by the identity of the kind, which is part of that of the store.
  await engine.identity.current()
  const turns = await engine.openTurns(timelineId(id), fold, { mustExist, evenInvalid })
  const resource = new OpenResource(engine, turns, wait === undefined ? turnWaitMs : toMs(wait, 'wait'))
  const forget = engine.onClose(() => resource.close())
  return { resource, lists: new Lists(resource), forget }
}
