// The user's handle of an open kind of resource. Reads return the newest committed state, including commits of other
// processes; writes resolve when they are durable. Handles of one kind in one process share the open resource.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkGivenOptions, checkObject, checkOptions, namesOf } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import { checkWith, type StandardSchema } from '../../engine/model/schema.ts'
import { insideOf } from './history.ts'
import { jsonPatch } from './json-patch.ts'
import type { ListOptions, Lists, ResourceList } from './list.ts'
import {
  type Applying,
  checkPatch,
  fieldsIn,
  type Patch,
  patchedFrom,
  pick,
  type Reporting,
  type Updating,
} from './requests.ts'
import { applyFields, type FieldOwners } from './rules/field-owners.ts'
import { copyJson, equalJson } from './rules/json.ts'
import type { GivenStatus } from './rules/kubernetes.ts'
import { mergePatch } from './rules/merge-patch.ts'
import {
  checkObjectName,
  created,
  deleted,
  draftOf,
  type NewObject,
  type ObjectChange,
  type Precondition,
  type ResourceObject,
  reported,
  updated,
} from './rules/object.ts'
import type { Change } from './rules/state.ts'
import type { Fence, SharedResource } from './shared-resource.ts'
import { Watch, type WatchOptions } from './watch.ts'

export interface ResourceSchemas {
  readonly schema?: StandardSchema | undefined
  readonly status?: StandardSchema | undefined
}

const knownWatch = namesOf<WatchOptions>()('from bookmarks signal labels fields prefix')
const knownList = namesOf<ListOptions>()('limit continue revision labels fields prefix')
const knownNew = namesOf<NewObject>()('name labels annotations owners finalizers spec')
const knownApply = namesOf<Applying<unknown>>()('name by force labels annotations owners finalizers spec')
const knownAt = namesOf<Precondition>()('revision uid')
const knownStatus = namesOf<Reporting<unknown>>()('name status conditions observedGeneration revision uid')

export class ResourceHandle<Spec = unknown, Status = unknown> {
  readonly id: string
  readonly timeline: string
  /** The kind, as owner references name it. */
  readonly kind: string
  readonly #resource: SharedResource
  readonly #schemas: ResourceSchemas
  readonly #lists: Pick<Lists, 'page'>
  readonly #leave: () => Promise<void>
  #isClosed = false

  /** @internal */
  constructor(
    id: string,
    resource: SharedResource,
    schemas: ResourceSchemas,
    lists: Pick<Lists, 'page'>,
    leave: () => Promise<void>,
  ) {
    this.id = id
    this.#resource = resource
    this.timeline = resource.timeline
    this.kind = resource.kind
    this.#schemas = schemas
    this.#lists = lists
    this.#leave = leave
  }

  /** @internal The open resource that all handles of this kind in this process share. */
  get shared(): SharedResource {
    return this.#resource
  }

  get coordinate(): Coordinate {
    return this.#resource.open.coordinate
  }

  /** The newest revision that this process has read. */
  get revision(): number {
    return this.#resource.revisions.outside(this.#resource.revision)
  }

  /** @internal REVISION_GONE if the revision belongs to another history. */
  async checkRevision(revision: number): Promise<void> {
    await this.#resource.refresh()
    await insideOf(this.#resource, revision)
  }

  /** EXISTS if an object of this name already exists. */
  async create(object: NewObject<Spec>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkGivenOptions('create', object, knownNew)
    return await this.#create(object)
  }

  /** Replaces the given fields if the object is still at this revision; CONFLICT otherwise. Other fields keep their values. */
  async update(change: Updating<Spec>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkObject('the change of update()', change)
    const { name, revision, uid, ...rest } = pick(change)
    if (revision !== 'any' && !Number.isSafeInteger(revision)) {
      const what = `update of ${this.kind} ${String(name)} needs the revision that was read, or 'any'`
      throw new RepriseError('INVALID_ARGUMENT', what, { name: String(name), revision: String(revision) })
    }
    return await this.#update(name, rest, { revision: revision === 'any' ? undefined : revision, uid })
  }

  /**
   * Reads the object, calls `by` for the change and writes it; starts over if another writer changed the object meanwhile.
   * @example await handle.change('web', ({ spec }) => ({ spec: { ...spec, replicas: spec.replicas + 1 } }))
   * /
   */
  async change(
    name: string,
    by: (object: ResourceObject<Spec, Status>) => ObjectChange<Spec> | Promise<ObjectChange<Spec>>,
    at: Precondition = {},
  ): Promise<ResourceObject<Spec, Status>> {
    checkFunction(by, 'change()')
    checkOptions('change', at, knownAt)
    for (;;) {
      const object = await this.get(name)
      if (!object) throw new RepriseError('NOT_FOUND', `there is no ${this.kind} ${name}`, { kind: this.kind, name })
      const change = await by(object)
      checkObject(`the result of change() of ${name}`, change)
      const { revision } = object
      if (at.revision !== undefined && at.revision !== revision) {
        return await this.#update(name, change, at)
      }
      try {
        return await this.#update(name, change, { ...at, revision })
      } catch (error) {
        if (at.revision !== undefined || !isReprise(error, 'CONFLICT')) throw error
        if (at.uid !== undefined && at.uid !== object.uid) throw error
      }
    }
  }

  /** @example await handle.patch('web', { merge: { spec: { replicas: 3 }, labels: { old: null } } }) */
  async patch(name: string, patch: Patch, at: Precondition = {}): Promise<ResourceObject<Spec, Status>> {
    const checked = checkPatch(patch)
    return await this.change(
      name,
      (object) => {
        const target = fieldsIn(object)
        return patchedFrom<Spec>(
          name,
          checked.merge ? mergePatch(target, checked.merge) : jsonPatch(target, checked.json!),
        )
      },
      at,
    )
  }

  /**
   * Sets the named fields, and creates the object if it does not exist. CONFLICT names the owner of a field that another
   * party applied with another value. A field applied earlier under this owner and missing now is removed.
   * @example await handle.apply({ name: 'web', by: 'scaler', spec: { replicas: 3 } })
   * /
   */
  async apply(applying: Applying<Spec>): Promise<ResourceObject<Spec, Status>> {
    checkGivenOptions('apply', applying, knownApply)
    const { name, by, force = false, ...wanted } = applying
    for (;;) {
      const object = await this.get(checkObjectName(name))
      const target = object ? fieldsIn(object) : {}
      const { value, owners } = applyFields(target, object?.fieldOwners ?? {}, wanted, by, force)
      const change = patchedFrom<Spec>(name, value)
      try {
        if (object) return await this.#update(name, change, { revision: object.revision }, owners)
        return await this.#create({ ...change, name, spec: change.spec! }, owners)
      } catch (error) {
        // Another writer wrote first: decide again on the current object.
        if (!isReprise(error, 'CONFLICT', 'EXISTS', 'NOT_FOUND')) throw error
      }
    }
  }

  /**
   * Writes the status and the generation it was observed for in one commit. CONFLICT if a newer generation was already
   * reported on.
   */
  async report(status: Reporting<Status>): Promise<ResourceObject<Spec, Status>> {
    return await this.reportAs(undefined, status)
  }

  /** @internal Reports as the owner of a controller: FENCED once the controller has a newer owner. */
  async reportAs(fence: Fence | undefined, status: Reporting<Status>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkGivenOptions('report', status, knownStatus)
    const { name, revision, uid } = status
    const value =
      status.status === undefined ? undefined : await this.#checked('status', this.#schemas.status, status.status)
    const change = await this.#resource.change({
      name: checkObjectName(name),
      fence,
      decide: (before, now) =>
        reported(
          this.kind,
          this.#shown(before),
          { ...status, ...(value !== undefined && { status: value }) },
          { name, revision, uid },
          now,
        ),
    })
    return change ? this.#given(change) : this.#unchanged(name)
  }

  /** @internal Replaces status and conditions, as clients of Kubernetes do. Default generation: the one last reported on. */
  async replaceStatus(change: GivenStatus & Precondition & { readonly name: string }) {
    this.#check()
    const { name, revision, uid, conditions } = change
    const at = { name, revision, uid }
    const value =
      change.status === undefined ? undefined : await this.#checked('status', this.#schemas.status, change.status)
    const made = await this.#resource.change({
      name: checkObjectName(name),
      decide: (before, now) => {
        const observedGeneration = change.observedGeneration ?? before?.observedGeneration ?? 1
        const checked = reported(this.kind, this.#shown(before), { observedGeneration, conditions }, at, now)
        const { status: _, ...rest } = checked ?? draftOf(before!)
        const after = { ...rest, ...(value !== undefined && { status: copyJson(value, 'status') }), conditions }
        return equalJson(after, draftOf(before!)) ? null : after
      },
    })
    return made ? this.#given(made) : this.#unchanged(name)
  }

  /**
   * Deletes the object: at once if it has no finalizers, otherwise when the last finalizer is removed. Its dependents follow
   * (`garbageCollector`). Returns the object as it last was, or as it waits for its finalizers.
   */
  async delete(name: string, at: Precondition = {}): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkOptions('delete', at, knownAt)
    const change = await this.#resource.change({
      name: checkObjectName(name),
      decide: (before, now) => {
        const after = deleted(this.kind, this.#shown(before), { name, ...at }, now)
        return this.#resource.engine.planted.has('finalizers-ignored') ? 'gone' : after
      },
    })
    return change ? this.#given(change) : this.#unchanged(name)
  }

  /** The current object; undefined if it does not exist. */
  async get(name: string): Promise<ResourceObject<Spec, Status> | undefined> {
    this.#check()
    return this.#resource.revisions.shown(await this.#resource.read(name)) as ResourceObject<Spec, Status> | undefined
  }

  /** @internal The object as this process last read it; other processes may have a newer one. */
  peek(name: string): ResourceObject<Spec, Status> | undefined {
    return this.#resource.revisions.shown(this.#resource.state.objects.get(name)) as
      | ResourceObject<Spec, Status>
      | undefined
  }

  /** Objects ordered by name, all at one revision, from which a watch can continue. */
  async list(options: ListOptions = {}): Promise<ResourceList<Spec, Status>> {
    this.#check()
    checkOptions('list', options, knownList)
    return (await this.#lists.page(options)) as ResourceList<Spec, Status>
  }

  /**
   * Every change after a revision, in order; ends with `close`, `break` or a signal.
   * @example for await (const event of handle.watch({ from: list.revision })) { … }
   * /
   */
  watch(options: WatchOptions = {}): Watch<Spec, Status> {
    this.#check()
    checkOptions('watch', options, knownWatch)
    return new Watch(this.#resource, options)
  }

  /** Publishes a checkpoint of the current state. Takes over no ownership from the current writer. */
  async checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    this.#check()
    return await this.#resource.checkpoint(request)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#leave()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #create(object: NewObject<Spec>, applied?: FieldOwners): Promise<ResourceObject<Spec, Status>> {
    const spec = await this.#checked('spec', this.#schemas.schema, object.spec)
    const { kind } = this
    const change = await this.#resource.change({
      name: checkObjectName(object.name),
      decide: (before, now) => created(kind, before, { ...object, spec }, now, applied),
    })
    return this.#given(change!)
  }

  async #update(
    name: string,
    change: ObjectChange<Spec>,
    at: Precondition,
    applied?: FieldOwners,
  ): Promise<ResourceObject<Spec, Status>> {
    const isDesired = change.spec !== undefined
    const spec = isDesired ? await this.#checked('spec', this.#schemas.schema, change.spec) : undefined
    const { kind } = this
    const made = await this.#resource.change({
      name: checkObjectName(name),
      decide: (before) =>
        updated(kind, this.#shown(before), isDesired ? { ...change, spec } : change, { name, ...at }, applied),
    })
    return made ? this.#given(made) : this.#unchanged(name)
  }

  /** No write was necessary: the object already has the requested value. */
  #unchanged(name: string): ResourceObject<Spec, Status> {
    const object = this.#resource.state.objects.get(name)
    if (object) return this.#resource.revisions.shown(object) as ResourceObject<Spec, Status>
    throw new RepriseError('NOT_FOUND', `there is no ${this.kind} ${name}`, { kind: this.kind, name })
  }

  async #checked(what: string, schema: StandardSchema | undefined, value: unknown): Promise<unknown> {
    if (!schema) return value
    const checked = await checkWith(schema, value)
    if (checked.isValid) return checked.value
    throw new RepriseError('INVALID_ARGUMENT', `the ${what} of ${this.kind} is not valid: ${checked.why}`, {
      kind: this.kind,
    })
  }

  /** The object with its external revision, with which the revision of a precondition is compared. */
  #shown(object: ResourceObject | undefined): ResourceObject | undefined {
    return this.#resource.revisions.shown(object)
  }

  #given({ object }: Change): ResourceObject<Spec, Status> {
    return this.#resource.revisions.shown(object) as ResourceObject<Spec, Status>
  }

  #check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
  }
}
