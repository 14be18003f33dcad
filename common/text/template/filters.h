// The filters a template can use, by group. FindFilter in callable.h maps names to them.
//
// Each is Python's or Jinja's function of that name, with its argument names and defaults; `self` is the
// value before the pipe.
#pragma once

#include "common/text/template/callable.h"

namespace paceline::jinja {

#define PACELINE_JINJA_FILTER(Name) \
  StatusOr<Value> Filter##Name(Runtime& runtime, const Value& self, const CallArgs& args)

// filters_text.cc
PACELINE_JINJA_FILTER(Upper);
PACELINE_JINJA_FILTER(Lower);
PACELINE_JINJA_FILTER(Capitalize);
PACELINE_JINJA_FILTER(Title);
PACELINE_JINJA_FILTER(Trim);
PACELINE_JINJA_FILTER(Replace);
PACELINE_JINJA_FILTER(String);
PACELINE_JINJA_FILTER(Safe);
PACELINE_JINJA_FILTER(Escape);
PACELINE_JINJA_FILTER(Indent);
PACELINE_JINJA_FILTER(Center);
PACELINE_JINJA_FILTER(WordCount);
PACELINE_JINJA_FILTER(Int);
PACELINE_JINJA_FILTER(Float);
PACELINE_JINJA_FILTER(Abs);
PACELINE_JINJA_FILTER(Round);
PACELINE_JINJA_FILTER(ToJson);
PACELINE_JINJA_FILTER(FromJson);
PACELINE_JINJA_FILTER(Default);

// filters_sequence.cc
PACELINE_JINJA_FILTER(Length);
PACELINE_JINJA_FILTER(List);
PACELINE_JINJA_FILTER(First);
PACELINE_JINJA_FILTER(Last);
PACELINE_JINJA_FILTER(Reverse);
PACELINE_JINJA_FILTER(Join);
PACELINE_JINJA_FILTER(Items);
PACELINE_JINJA_FILTER(Batch);

// filters_order.cc
PACELINE_JINJA_FILTER(Sort);
PACELINE_JINJA_FILTER(DictSort);
PACELINE_JINJA_FILTER(Unique);
PACELINE_JINJA_FILTER(Min);
PACELINE_JINJA_FILTER(Max);
PACELINE_JINJA_FILTER(Sum);
PACELINE_JINJA_FILTER(GroupBy);

// filters_select.cc
PACELINE_JINJA_FILTER(Map);
PACELINE_JINJA_FILTER(Select);
PACELINE_JINJA_FILTER(Reject);
PACELINE_JINJA_FILTER(SelectAttr);
PACELINE_JINJA_FILTER(RejectAttr);

#undef PACELINE_JINJA_FILTER

}  // namespace paceline::jinja
