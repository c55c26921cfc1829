// What a user holds of an open kind of resource. Reads are of what is committed anywhere when they are called; writes
// resolve when they are durable. Handles of one kind in one process share it.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
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
import { otherHistory } from './revisions.ts'
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

const knownWatch = namesOf<WatchOptions>({
  from: true,
  bookmarks: true,
  signal: true,
  labels: true,
  fields: true,
  prefix: true,
})
const knownList = namesOf<ListOptions>({
  limit: true,
  continue: true,
  revision: true,
  labels: true,
  fields: true,
  prefix: true,
})
const knownNew = namesOf<NewObject>({
  name: true,
  labels: true,
  annotations: true,
  owners: true,
  finalizers: true,
  spec: true,
})
const knownApply = namesOf<Applying<unknown>>({
  name: true,
  by: true,
  force: true,
  labels: true,
  annotations: true,
  owners: true,
  finalizers: true,
  spec: true,
})
const knownAt = namesOf<Precondition>({ revision: true, uid: true })
const knownStatus = namesOf<Reporting<unknown>>({
  name: true,
  status: true,
  conditions: true,
  observedGeneration: true,
  revision: true,
  uid: true,
})

export class ResourceHandle<Spec = unknown, Status = unknown> {
  readonly id: string
  readonly timeline: string
  /** As owner references name it. */
  readonly kind: string
  readonly #resource: SharedResource
  readonly #schemas: ResourceSchemas
  readonly #lists: Pick<Lists, 'page'>
  readonly #leave: () => Promise<void>
  #isClosed = false

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

  /** @internal What all handles of this kind in this process share. */
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

  /** @internal REVISION_GONE if it is of another history. */
  async checkRevision(revision: number): Promise<void> {
    await this.#resource.refresh()
    await insideOf(this.#resource, revision)
  }

  /** EXISTS if there is one of this name. */
  async create(object: NewObject<Spec>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkOptions('create', object, knownNew)
    return await this.#create(object)
  }

  /** Replaces what is given, if the object is still at this revision; CONFLICT otherwise. What is left out stays. */
  async update(change: Updating<Spec>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    const { name, revision, uid, ...rest } = pick(change)
    if (revision !== 'any' && !Number.isSafeInteger(revision)) {
      const what = `update of ${this.kind} ${String(name)} needs the revision that was read, or 'any'`
      throw new RepriseError('INVALID_ARGUMENT', what, { name: String(name), revision: String(revision) })
    }
    return await this.#update(name, rest, { revision: revision === 'any' ? undefined : revision, uid })
  }

  /**
   * Reads the object, asks what to change and writes it; again from the start if somebody else wrote meanwhile.
   * @example await handle.change('web', ({ spec }) => ({ spec: { ...spec, replicas: spec.replicas + 1 } }))
   */
  async change(
    name: string,
    by: (object: ResourceObject<Spec, Status>) => ObjectChange<Spec> | Promise<ObjectChange<Spec>>,
    at: Precondition = {},
  ): Promise<ResourceObject<Spec, Status>> {
    checkOptions('change', at, knownAt)
    for (;;) {
      const object = await this.get(name)
      if (!object) throw new RepriseError('NOT_FOUND', `there is no ${this.kind} ${name}`, { kind: this.kind, name })
      const change = await by(object)
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
   * Makes the fields that are named here so, and makes the object if there is none. CONFLICT names the owner of a field that
   * another party has applied with another value. A field that was applied under this name before and is left out now goes.
   * @example await handle.apply({ name: 'web', by: 'scaler', spec: { replicas: 3 } })
   */
  async apply(applying: Applying<Spec>): Promise<ResourceObject<Spec, Status>> {
    checkOptions('apply', applying, knownApply)
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
        // Somebody was faster: what is there now counts.
        if (!isReprise(error, 'CONFLICT', 'EXISTS', 'NOT_FOUND')) throw error
      }
    }
  }

  /** What is, with the generation that it is about, in one commit. CONFLICT if a newer generation was reported on already. */
  async report(status: Reporting<Status>): Promise<ResourceObject<Spec, Status>> {
    return await this.reportAs(undefined, status)
  }

  /** @internal As the owner of a controller: FENCED once it has a newer one. */
  async reportAs(fence: Fence | undefined, status: Reporting<Status>): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkOptions('report', status, knownStatus)
    const { name, revision, uid } = status
    const value =
      status.status === undefined ? undefined : await this.#checked('status', this.#schemas.status, status.status)
    const change = await this.#resource.change({
      name: checkObjectName(name),
      fence,
      decide: (before, now) =>
        reported(
          this.kind,
          before,
          { ...status, ...(value !== undefined && { status: value }) },
          this.#inside({ name, revision, uid }),
          now,
        ),
    })
    return change ? this.#given(change) : this.#unchanged(name)
  }

  /**
   * @internal Status and conditions in place of those that there are, as clients of Kubernetes write them. Without a
   * generation it is about the one that was reported on last.
   */
  async replaceStatus(change: GivenStatus & Precondition & { readonly name: string }) {
    this.#check()
    const { name, revision, uid, conditions } = change
    const at = this.#inside({ name, revision, uid })
    const value =
      change.status === undefined ? undefined : await this.#checked('status', this.#schemas.status, change.status)
    const made = await this.#resource.change({
      name: checkObjectName(name),
      decide: (before, now) => {
        const observedGeneration = change.observedGeneration ?? before?.observedGeneration ?? 1
        const checked = reported(this.kind, before, { observedGeneration, conditions }, at, now)
        const { status: _, ...rest } = checked ?? draftOf(before!)
        const after = { ...rest, ...(value !== undefined && { status: copyJson(value, 'status') }), conditions }
        return equalJson(after, draftOf(before!)) ? null : after
      },
    })
    return made ? this.#given(made) : this.#unchanged(name)
  }

  /**
   * It is gone when its finalizers are: at once if it has none. What it owns follows (garbageCollector). Gives the object as it
   * was, or as it waits.
   */
  async delete(name: string, at: Precondition = {}): Promise<ResourceObject<Spec, Status>> {
    this.#check()
    checkOptions('delete', at, knownAt)
    const change = await this.#resource.change({
      name: checkObjectName(name),
      decide: (before, now) => {
        const after = deleted(this.kind, before, this.#inside({ name, ...at }), now)
        return this.#resource.engine.kernel.planted.has('finalizers-ignored') ? 'gone' : after
      },
    })
    return change ? this.#given(change) : this.#unchanged(name)
  }

  /** As it is now; undefined if there is none. */
  async get(name: string): Promise<ResourceObject<Spec, Status> | undefined> {
    this.#check()
    return this.#resource.revisions.shown(await this.#resource.read(name)) as ResourceObject<Spec, Status> | undefined
  }

  /** @internal As far as this process has read: perhaps an older one. */
  peek(name: string): ResourceObject<Spec, Status> | undefined {
    return this.#resource.revisions.shown(this.#resource.state.objects.get(name)) as
      | ResourceObject<Spec, Status>
      | undefined
  }

  /** In order of names, all of one revision, which a watch can go on from. */
  async list(options: ListOptions = {}): Promise<ResourceList<Spec, Status>> {
    this.#check()
    checkOptions('list', options, knownList)
    return (await this.#lists.page(options)) as ResourceList<Spec, Status>
  }

  /**
   * Every change after a revision, in order; end it with `close`, `break` or a signal.
   * @example for await (const event of handle.watch({ from: list.revision })) { … }
   */
  watch(options: WatchOptions = {}): Watch<Spec, Status> {
    this.#check()
    checkOptions('watch', options, knownWatch)
    return new Watch(this.#resource, options)
  }

  /** Publishes the state as of now. Takes nothing from whoever writes. */
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
        updated(kind, before, isDesired ? { ...change, spec } : change, this.#inside({ name, ...at }), applied),
    })
    return made ? this.#given(made) : this.#unchanged(name)
  }

  /** Nothing had to be written: it is as the caller wants it. */
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

  /** As the objects inside have it; a revision of another history equals none. */
  #inside<At extends Precondition>(at: At): At {
    if (at.revision === undefined) return at
    return { ...at, revision: this.#resource.revisions.inside(at.revision) ?? otherHistory }
  }

  #given({ object }: Change): ResourceObject<Spec, Status> {
    return this.#resource.revisions.shown(object) as ResourceObject<Spec, Status>
  }

  #check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
  }
}
